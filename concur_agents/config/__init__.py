"""A controller's settings as text: one schema, read from a YAML or TOML file, a mapping and the environment."""

from concur_agents.config.entry import json_schema, load_config
from concur_agents.config.environment import ENVIRONMENT, Variable

__all__ = ["ENVIRONMENT", "Variable", "json_schema", "load_config"]
