"""A compressed log that is damaged or cut is noticed, and a whole one is read."""

import gzip
import itertools
import random
import zlib

import pyarrow as pa
import pytest

from matchset.data.compression import check_compressed
from matchset.data.log_reader import read_log
from matchset.errors import DataError

HEADER = b"query,sku\n"


def make_rows(n):
    rng = random.Random(3)
    return "".join(f"query {rng.randrange(10**9)},p{rng.randrange(10**9)}\n" for _ in range(n))


TEXT = HEADER + make_rows(20_000).encode()
GZIP = gzip.compress(TEXT, mtime=0)
ZSTD = pa.Codec("zstd").compress(TEXT, asbytes=True)


def write(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def skippable(data):
    return (0x184D2A53).to_bytes(4, "little") + len(data).to_bytes(4, "little") + data


def zstd_frame(blocks, *, flags=0, header=b"\x58", checksum=b""):
    """A frame of raw blocks, with any form of header."""
    data = b"\x28\xb5\x2f\xfd" + bytes([flags]) + header
    for number, block in enumerate(blocks):
        is_last = number == len(blocks) - 1
        data += (is_last | len(block) << 3).to_bytes(3, "little") + block
    return data + checksum


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("log.csv.gz", GZIP),
        ("log.csv.gz", gzip.compress(TEXT[:1000], mtime=0) + gzip.compress(TEXT[1000:], mtime=0)),
        ("log.csv.gz", GZIP + gzip.compress(b"", mtime=0)),
        ("log.csv.zst", ZSTD),
        ("log.csv.zst", skippable(b"hello") + ZSTD),
        ("log.csv.zst", zstd_frame([TEXT[:500], TEXT[500:999]]) + zstd_frame([TEXT[999:9999]])),
    ],
)
def test_m8_a_whole_file_is_read(tmp_path, name, data):
    path = write(tmp_path, name, data)
    check_compressed([path])
    assert read_log(path).report.rows > 100


@pytest.mark.parametrize(
    ("flags", "header"),
    [(0x00, b"\x58"), (0x20, b"\x05"), (0x40, b"\x58\0\0"), (0x60, b"\0\0"),
     (0x80, b"\x58" + b"\0" * 4), (0xC0, b"\x58" + b"\0" * 8), (0x01, b"\x58\1"),
     (0x02, b"\x58\1\1"), (0x03, b"\x58\1\1\1\1")],
)  # fmt: skip
def test_m8_every_form_of_a_zstd_header_is_understood(tmp_path, flags, header):
    data = zstd_frame([b"12345"], flags=flags, header=header)
    check_compressed([write(tmp_path, "a.zst", data)])
    summed = zstd_frame([b"12345"], flags=flags | 4, header=header, checksum=b"abcd")
    check_compressed([write(tmp_path, "b.zst", summed)])
    for whole in (data, summed):
        for n in range(1, len(whole)):
            with pytest.raises(DataError, match="must be a whole zstd file"):
                check_compressed([write(tmp_path, "c.zst", whole[:n])])


def test_m8_a_zstd_log_that_ends_between_two_blocks_is_noticed(tmp_path):
    blocks = [TEXT[begin : begin + 1003] for begin in range(0, 10_030, 1003)]
    whole = zstd_frame(blocks)
    for n_blocks in range(1, 10):
        cut = 6 + n_blocks * (3 + 1003)  # headers of the frame and of blocks
        path = write(tmp_path, "log.csv.zst", whole[:cut])
        with pytest.raises(DataError, match=r"log\.csv\.zst: must be a whole zstd file"):
            read_log(path)


@pytest.mark.parametrize("share", [0.0001, 0.1, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize(("name", "whole"), [("log.csv.gz", GZIP), ("log.csv.zst", ZSTD)])
def test_m8_a_truncated_log_is_noticed(tmp_path, name, whole, share):
    path = write(tmp_path, name, whole[: max(1, int(share * len(whole)))])
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
    with pytest.raises(DataError, match=r"incorrect (data|length) check"):
        read_log(write(tmp_path, "log.csv.gz", bytes(damaged)))


SIZES = [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1]


@pytest.mark.parametrize(("size", "level"), [*itertools.product(SIZES, [0, 9]), (10**8, 9)])
def test_m8_any_size_is_checked_in_little_memory(tmp_path, size, level):
    packer = zlib.compressobj(level, wbits=31)
    data = packer.compress(bytes(size)) + packer.flush()
    check_compressed([write(tmp_path, "zeros.csv.gz", data)])
    with pytest.raises(DataError):
        check_compressed([write(tmp_path, "cut.csv.gz", data[:-1])])


def test_m8_of_several_files_the_damaged_one_is_named(tmp_path):
    paths = [write(tmp_path, f"{n}.csv.gz", GZIP) for n in range(4)]
    paths[2].write_bytes(GZIP[:-3])
    with pytest.raises(DataError, match=r"2\.csv\.gz: must be a whole gzip file"):
        read_log(tmp_path)
