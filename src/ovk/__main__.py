"""``python -m ovk``: the same as ``ovk``."""

from ovk.app.cli import main

if __name__ == "__main__":
    main()
