"""``python -m ovk.cli``: the same as ``ovk``."""

from ovk.cli import main

if __name__ == "__main__":
    main()
