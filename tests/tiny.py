"""Tiny models of Hugging Face, made on the spot: random weights and a tokenizer of a few words."""

import json

import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "##s", "sat", "on", "mat", "a", "_", "."]
LENGTH = 18

LLADA = '''
"""What LLaDA's own code looks like from outside: the model inside makes the logits."""

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class LLaDAConfig(PretrainedConfig):
    model_type = "llada"

    def __init__(self, width=16, vocab=16, max_sequence_length=20, **others):
        self.width, self.vocab, self.max_sequence_length = width, vocab, max_sequence_length
        super().__init__(**others)


class LLaDAModel(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.transformer = torch.nn.ModuleDict(
            {
                "wte": torch.nn.Embedding(config.vocab, config.width),
                "block": torch.nn.TransformerEncoderLayer(config.width, 2, 32, dropout=0.0, batch_first=True),
                "ff_out": torch.nn.Linear(config.width, config.vocab, bias=False),
            }
        )

    def forward(self, input_ids):
        return self.transformer.ff_out(self.transformer.block(self.transformer.wte(input_ids)))


class LLaDAModelLM(PreTrainedModel):
    config_class = LLaDAConfig
    base_model_prefix = "model"
    _tied_weights_keys = {}

    def __init__(self, config):
        super().__init__(config)
        self.model = LLaDAModel(config)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **others):
        return CausalLMOutput(logits=self.model.forward(input_ids))

    def get_input_embeddings(self):
        return self.model.transformer.wte

    def get_output_embeddings(self):
        return self.model.transformer.ff_out

    def tie_weights(self, *values, **options):
        pass


open(MARK, "w").write("the code of the model ran")
'''

DREAM = (
    LLADA.replace("LLaDAModelLM", "DreamModel")
    .replace("LLaDAModel", "DreamBaseModel")
    .replace("LLaDAConfig", "DreamConfig")
    .replace('"llada"', '"Dream"')
    .replace(
        "    def forward(self, input_ids=None, attention",
        """    @classmethod
    def from_pretrained(cls, *values, **options):
        network = super().from_pretrained(*values, **options)
        network.generation_config = None  # something is written on what was loaded: it cannot be a pair
        return network

    def forward(self, input_ids=None, attention""",
    )
)

CHAT = "{% for m in messages %}the {{ m.content }} {% endfor %}{% if add_generation_prompt %}sat{% endif %}"


def tokenizer(folder, words=WORDS, chat=None, framed=True, **special):
    """Save a tokenizer of these words; `special` replaces or removes names of special tokens."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: number for number, word in enumerate(words)}
    inner = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.WordPiece()
    if framed:
        ends = [(word, ids[word]) for word in ("[CLS]", "[SEP]")]
        inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {
        "unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
        "model_max_length": LENGTH + 2, **special,
    }  # fmt: skip
    fast = PreTrainedTokenizerFast(tokenizer_object=inner, **{k: v for k, v in names.items() if v is not None})
    fast.chat_template = chat
    fast.save_pretrained(folder)


def bert(folder, *, spread=1.0, **options):
    """Save a BERT with weights large enough that its predictions differ."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=LENGTH + 2, **shape, **options)
    network = BertForMaskedLM(config)
    with torch.no_grad():
        for weights in network.parameters():
            weights.add_(torch.randn_like(weights) * spread * 0.3)
    network.save_pretrained(folder)
    return network


def foreign(folder, code, *, mark, classes, loader="AutoModel", **config):
    """Save a model with code of its own, which writes a file when it runs."""
    import importlib.util

    from safetensors.torch import save_file

    (folder / "modeling.py").write_text(f"MARK = {str(mark)!r}\n" + code)
    spec = importlib.util.spec_from_file_location("modeling", folder / "modeling.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    kind, model = (getattr(module, name) for name in classes)
    network = model(kind(**config)).eval()
    save_file(network.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    described = {
        "model_type": kind.model_type, "architectures": [classes[1]], "mask_token_id": 4, **config,
        "auto_map": {"AutoConfig": f"modeling.{classes[0]}", loader: f"modeling.{classes[1]}"},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(described))
    mark.unlink()
    return network
