"""For tests, ours and yours: a clock you set, a reader that says what you wrote, and what every adapter must do."""

from concur_agents.testing.clock import ManualClock
from concur_agents.testing.contract import AdapterContract
from concur_agents.testing.lives import check_lives
from concur_agents.testing.reader import ScriptedReader
from concur_agents.testing.scene import Scene

__all__ = ["AdapterContract", "ManualClock", "Scene", "ScriptedReader", "check_lives"]
