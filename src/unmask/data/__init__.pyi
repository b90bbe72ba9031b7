from .collection import Collected as Collected
from .collection import chunks as chunks
from .collection import collect as collect
from .encoding import Encoded as Encoded
from .encoding import encode as encode
from .files import rows as rows
from .formats import Row as Row
