from setuptools import find_packages, setup

# Configurations stay at the top of a checkout. Installed, they are in the package that reads them.
setup(
    packages=[*find_packages(include=["lambda_keras*", "zoo*"]), "zoo.tpu_configs"],
    package_dir={"zoo.tpu_configs": "tpu_configs"},
)
