"""Runs a network on images: `python -m zoo.predict --run runs/FOLDER photo.jpg`."""

from zoo.cli.main import Verb

main = Verb("predict")

if __name__ == "__main__":
    main.run()
