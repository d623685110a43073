"""Other packages beside ours, each in an environment of its own: run, never imported here.

A peer is a script of this folder that reads a file of data and prints JSON on its last line; its
environment is made once, under ``.peers`` (or the folder that ``MANYKERNELS_PEERS`` names).
"""

import json
import os
import subprocess
import sys
import threading
import venv
from pathlib import Path

MAKING = threading.Lock()
FOLDER = Path(os.environ.get("MANYKERNELS_PEERS", Path(__file__).parents[2] / ".peers"))
NEEDS = {
    "scmkl": ["scmkl==0.5.1"],
    "mklpy": ["MKLpy==0.6"],
    "himalaya": ["himalaya==0.4.11", "packaging"],  # which it imports and does not ask for
    "celer": ["celer==0.7.4"],
    "skglm": ["skglm==0.5"],
    "shap": ["shap==0.48.0"],
    "mapie": ["mapie==1.6.0"],
    "adelie": ["adelie==1.1.52"],
}


def run(peer, script, *arguments, timeout=None):
    """What a script of this folder prints on its last line, run in the environment of a peer.

    Parameters
    ----------
    peer : str
        A name of `NEEDS`, or "ours" for this environment.
    script : str
        Of this folder, without its ending.
    arguments
        Of the script.
    timeout : float, optional
        Seconds.
    """
    python = sys.executable if peer == "ours" else _environment(peer)
    path = Path(__file__).parent / f"{script}.py"
    command = [str(python), str(path), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"{script} of {peer} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def is_there(peer, make=True):
    """Whether there is an environment of a peer, or one can be made where that is wanted."""
    if not make:
        return (FOLDER / peer / "complete").exists()
    with MAKING:
        try:
            _environment(peer)
        except subprocess.CalledProcessError:
            return False
    return True


def _environment(peer):
    """Python of the environment of a peer, which is made if there is none."""
    home = FOLDER / peer
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        print(f"making an environment for {peer} in {home}, which takes minutes")
        venv.create(home, with_pip=True, clear=True)
        quickly = ["--quiet", "--retries", "1", "--timeout", "20"]  # also without a network
        command = [str(python), "-m", "pip", "install", *quickly, *NEEDS[peer]]
        subprocess.run(command, check=True, capture_output=True)
        (home / "complete").touch()
    return python
