"""``python -m manykernels`` is the command ``manykernels``."""

from .cli import main

if __name__ == "__main__":
    main()
