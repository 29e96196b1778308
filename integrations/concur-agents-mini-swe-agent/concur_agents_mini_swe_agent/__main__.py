"""``mini-extra`` with Concur: the same arguments, and its batch runners as they are.

``swebench`` and ``programbench`` make their agents of one class and have no option for another, as ``swebench-single``
and ``mini`` have. So that class is exchanged before they import it; nothing else is.
"""

import sys
from itertools import pairwise

from minisweagent.config import get_config_from_spec
from minisweagent.run.benchmarks.utils import common
from minisweagent.run.utilities import mini_extra
from minisweagent.utils.serialize import recursive_merge

from concur_agents.errors import ConfigError
from concur_agents.shared import shared_controller
from concur_agents_mini_swe_agent.agents import concur

__all__ = ["main"]


def main() -> None:
    """The program."""
    command, *arguments = sys.argv[1:] or ["--help"]
    if command in ("swebench", "programbench") and "--help" not in arguments:
        specs = [value for option, value in pairwise(arguments) if option in ("-c", "--config")]
        config = recursive_merge(*map(get_config_from_spec, specs)) if specs else {}
        try:  # now, since the runner would note what is wrong as the result of each instance
            shared_controller(config.get("agent", {}).get("concur"))
        except ConfigError as error:
            sys.exit(str(error))
    common.ProgressTrackingAgent = concur(common.ProgressTrackingAgent)  # type: ignore[misc]
    mini_extra.main()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
