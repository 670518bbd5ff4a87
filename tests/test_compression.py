"""A compressed log that is damaged or cut is noticed, and a whole one is read."""

import gzip
import itertools
import random
import zlib

import pytest

from matchset.data.encodings import check_gzip
from matchset.data.log_reader import read_log
from matchset.errors import DataError

HEADER = b"query,sku\n"


def make_rows(n):
    rng = random.Random(3)
    return "".join(f"query {rng.randrange(10**9)},p{rng.randrange(10**9)}\n" for _ in range(n))


TEXT = HEADER + make_rows(20_000).encode()
GZIP = gzip.compress(TEXT, mtime=0)


def write(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("log.csv.gz", GZIP),
        ("log.csv.gz", gzip.compress(TEXT[:1000], mtime=0) + gzip.compress(TEXT[1000:], mtime=0)),
        ("log.csv.gz", GZIP + gzip.compress(b"", mtime=0)),
    ],
)
def test_m8_a_whole_file_is_read(tmp_path, name, data):
    path = write(tmp_path, name, data)
    check_gzip([path])
    assert read_log(path).report.rows > 100


def test_m8_a_zstd_log_is_refused_with_the_command_that_unpacks_it(tmp_path):
    path = write(tmp_path, "my log.csv.zst", TEXT)
    for source in (path, tmp_path):
        with pytest.raises(DataError, match=r"unpack it: zstd -d '.*/my log.csv.zst'") as error:
            read_log(source)
        assert error.value.path == path


@pytest.mark.parametrize("share", [0.0001, 0.1, 0.5, 0.9, 0.9999])
def test_m8_a_truncated_log_is_noticed(tmp_path, share):
    path = write(tmp_path, "log.csv.gz", GZIP[: max(1, int(share * len(GZIP)))])
    with pytest.raises(DataError, match="damaged or incomplete"):
        read_log(path)


def test_m8_every_flipped_bit_of_a_gzip_log_is_noticed(tmp_path):
    rng = random.Random(5)
    for _ in range(60):
        damaged = bytearray(GZIP)
        damaged[rng.randrange(10, len(GZIP))] ^= 1 << rng.randrange(8)
        path = write(tmp_path, "log.csv.gz", bytes(damaged))
        with pytest.raises(DataError, match="must be a whole gzip file"):
            read_log(path)


@pytest.mark.parametrize("at", [-8, -1])
def test_m8_a_wrong_checksum_or_length_of_a_gzip_log_is_noticed(tmp_path, at):
    damaged = bytearray(GZIP)
    damaged[at] ^= 1
    with pytest.raises(DataError, match=r"CRC check failed|Incorrect length"):
        read_log(write(tmp_path, "log.csv.gz", bytes(damaged)))


SIZES = [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1]


@pytest.mark.parametrize(("size", "level"), [*itertools.product(SIZES, [0, 9]), (10**8, 9)])
def test_m8_any_size_is_checked_in_little_memory(tmp_path, size, level):
    packer = zlib.compressobj(level, wbits=31)
    data = packer.compress(bytes(size)) + packer.flush()
    check_gzip([write(tmp_path, "zeros.csv.gz", data)])
    with pytest.raises(DataError):
        check_gzip([write(tmp_path, "cut.csv.gz", data[:-1])])


def test_m8_of_several_files_the_damaged_one_is_named(tmp_path):
    paths = [write(tmp_path, f"{n}.csv.gz", GZIP) for n in range(4)]
    paths[2].write_bytes(GZIP[:-3])
    with pytest.raises(DataError, match=r"2\.csv\.gz: must be a whole gzip file"):
        read_log(tmp_path)
