"""Training of models: `python -m zoo.train`."""

from zoo.cli.run import BACKENDS
from zoo.config import TrainConfig
from zoo.config.detection import DetectionConfig
from zoo.config.task import CLASSIFICATION, DETECTION

# By task: settings, and the backends that training runs on.
TASKS = {
    CLASSIFICATION: (TrainConfig, BACKENDS[:2]),
    DETECTION: (DetectionConfig, BACKENDS[:1]),
}
