"""What each tab of the page shows, as plain dataclasses: one module for each tab."""
