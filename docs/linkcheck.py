"""Checks the links of the site that lead out: ``make linkcheck``.

Sphinx asks for every address. One that answers "not there" is an error; a host that cannot be
reached at all (no network, a proxy, a time-out) says nothing about the link, and is only listed.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE / "_build" / "linkcheck"
GONE = ("404", "410", "Anchor")  # in the answer of a host that was reached


def main():
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "linkcheck", "-D", "plot_gallery=0"]
    subprocess.run([*command, HERE, OUT], check=False)
    lines = (OUT / "output.json").read_text().splitlines()
    if not lines:
        sys.exit("Sphinx did not look at any link.")
    links = [json.loads(line) for line in lines]
    out = [link for link in links if link["uri"].startswith("http")]
    broken = [link for link in out if link["status"] in ("broken", "timeout")]
    gone = [link for link in broken if any(word in link["info"] for word in GONE)]
    local = [link for link in links if link["status"] == "broken" and link not in out]
    for link in local:
        print(f"broken: {link['uri']} ({link['filename']}:{link['lineno']})")
    for link in sorted(broken, key=lambda link: link["uri"]):
        word = "gone" if link in gone else "not reached"
        print(f"{word}: {link['uri']} ({link['filename']}:{link['lineno']})")
    print(
        f"{len(out)} links out: {len(gone)} gone, {len(broken) - len(gone)} not reached from here"
    )
    sys.exit(1 if gone or local else 0)


if __name__ == "__main__":
    main()
