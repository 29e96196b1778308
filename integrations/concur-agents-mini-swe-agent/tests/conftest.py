"""mini-swe-agent and what it uses read the environment, and make folders in the user's home, when they are imported."""

import atexit
import os
import shutil
import tempfile

_HOME = tempfile.mkdtemp(prefix="mini-swe-agent-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

os.environ |= {
    "HF_HOME": f"{_HOME}/huggingface",
    "HF_HUB_OFFLINE": "1",
    "MSWEA_GLOBAL_CONFIG_DIR": f"{_HOME}/config",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
