"""``python -m etl``: the command ``etl``."""

from etl.cli.main import main

if __name__ == "__main__":
    main()
