"""Data sources, one file each: its `Source` is what `zoo.data.load` opens by the file's name."""
