"""``python -m concur_agents.cli``."""

from concur_agents.cli import main

if __name__ == "__main__":
    main()
