"""What is printed and written about photographs; more in test_predict and test_client."""

from pathlib import Path

from zoo.answers import Answer, Guess, describe


def test_percentages_and_bars_are_aligned():
    top = [Guess(3, "temple", 1.0), Guess(0, "a b", 0.0504), Guess(1, "c", 0.0)]
    assert describe(Answer(Path("a/b.jpg"), top)) == (
        "a/b.jpg\n"
        "  100.0%  ##############################  temple\n"
        "    5.0%  ##                              a b\n"
        "    0.0%                                  c\n"
    )
