"""``python -m songrank``, for torchrun and other launchers."""

from songrank.cli.main import main

if __name__ == "__main__":
    main()
