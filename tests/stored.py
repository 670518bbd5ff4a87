"""Files of models, taken apart and put together again, as a forger does: all checksums fit."""

import copy
import shutil
from pathlib import Path

from matchset.storage.change_log import changes_path
from matchset.storage.codec import encode
from matchset.storage.file import open_file, read_header, write_file

MODEL = "model"


def take_apart(path):
    """The header and the arrays of a model, which may be changed."""
    opened = open_file(path, MODEL)
    arrays = {name: array.copy() for name, array in opened.arrays.items()}
    return copy.deepcopy(opened.header.value), arrays


def forge(path, change):
    """Write a model with another header and other arrays over it."""
    header, arrays = take_apart(path)
    change(header, arrays)
    Path(path).unlink()
    write_file(Path(path), MODEL, header, arrays)


def damage(path, at, flip=0xFF):
    """Change one byte of a file, in a new file: the old one may be mapped."""
    data = bytearray(Path(path).read_bytes())
    data[at] ^= flip
    Path(path).unlink()
    Path(path).write_bytes(data)


def dump_value(value):
    """All that the codec keeps of a value, to compare two byte for byte."""
    header, arrays = encode(value)
    return header, {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}


def copy_model(source, target):
    """Copy a model and the changes beside it, into new files."""
    for file, copied in ((source, target), (changes_path(source), changes_path(target))):
        copied.unlink(missing_ok=True)
        if file.exists():
            shutil.copy(file, copied)
    return target


def damage_array(path, name, at=0, flip=0xFF):
    """Change one byte of an array; what is written says otherwise."""
    header = read_header(path)
    entry = header.entries[name]
    damage(path, header.begin + entry.offset + at % entry.n_bytes, flip)
