"""`python -m extempo` is the command `extempo`."""

from extempo.cli.main import main

if __name__ == "__main__":
    main()
