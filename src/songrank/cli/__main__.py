"""``python -m songrank.cli``."""

from songrank.cli.main import main

main()
