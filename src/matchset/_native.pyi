"""Kernels of matchset: plain arrays in, plain arrays out."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy
import numpy.typing
from numpy.typing import NDArray

def limit_memory(most: int, folder: str) -> tuple[int, str]:
    """
    Map arrays as files in a folder when the process would own more bytes than that (0: never); returns the limit before.
    """

def mapped_bytes() -> int:
    """Bytes of the arrays that are mapped now."""

def was_disk_full() -> bool:
    """Whether an array found no room on disk since the limit was set."""

def set_numpy_handler(handler: object | None = None) -> object:
    """
    Let NumPy allocate arrays by this handler in the current context, or by ours; returns the one before.
    """

def pack_strings(
    texts: object, what: str
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """
    Copy a sequence of str into one UTF-8 buffer with offsets; `what` names it in errors.
    """

def group_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """
    Group of each string, numbered by first appearance, and the index of each group's first string.
    """

def find_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    wanted_data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    wanted_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    threads: int,
) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Index of each wanted string among distinct strings, -1 if it is not there.
    """

def hash_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
    """A 64-bit hash of each string."""

def take_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """The strings at indices, in that order."""

def decode_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
) -> tuple[str, ...]:
    """
    The strings at indices as str; the time does not depend on the other strings.
    """

def sort_strings(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Indices of the strings in ascending order of their bytes, ties by index.
    """

def read_arrow_stream(
    capsule: object, coded: list[str]
) -> list[tuple[str, Any, numpy.typing.NDArray[numpy.uint8]]]:
    """
    Read an Arrow C stream to its end: (name, values, nulls) of each column; nulls is empty if none is.
    Texts come as (data, offsets), or as (codes, data, offsets) for the columns named in coded.
    """

class SharedArrowStream:
    """An Arrow C stream that can be opened several times and read once."""

    def __init__(self, capsule: object) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def column_names(self) -> list[str]:
        """The names of the columns, with duplicates."""

def export_arrow_table(columns: list[tuple[str, str, Any, Any, Any]], n_rows: int) -> object:
    """
    A capsule of an Arrow C stream of one batch that borrows the arrays of its columns, each
    (name, format, valid bits or None, values or None, (data, offsets) of its texts or None).
    """

def select_rows(
    log: tuple[
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    ],
    is_selected: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    n_queries: int,
    n_products: int,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.float64], dict(shape=(None,))],
]:
    """
    The marked rows of query, product, event, day and count: the queries and products that occur, then the columns, numbered anew.
    """

def sum_pairs(
    query: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    product: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    event: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    count: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    of_event: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    least: float,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.float64], dict(shape=(None,))],
    int,
]:
    """
    Pairs of sorted rows that weigh at least so much: the first row and the weight of each, and the number of pairs that weigh anything.
    """

def sum_queries(
    query: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    size: int,
    event: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    count: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    of_event: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    threads: int,
) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """What the rows of each query weigh; they are sorted by query."""

def sum_products(
    product: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    size: int,
    event: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    count: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    of_event: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    day: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    of_day: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    first_day: int,
    threads: int,
) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """
    What the rows of each product weigh, also by their day, counted from `first_day`.
    """

def find_days(
    days: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    no_day: int,
    one_in: int,
    threads: int,
) -> tuple[int, int] | None:
    """
    The first day and the last one, but for one row in so many; None where every day is `no_day`.
    """

class Stems:
    """Stems of known words over borrowed, possibly memory-mapped arrays."""

    def __init__(
        self,
        slots: NDArray[numpy.uint8],
        n_homes: int,
        data: NDArray[numpy.uint8],
        offsets: NDArray[numpy.int64],
        stem_unknown: Callable[[str], str] | None,
    ) -> None: ...
    def analyze(
        self,
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        threads: int,
    ) -> tuple[
        Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    ]:
        """
        Normalized texts with stems for words; a text of stop words alone stays as it is.
        """

def lay_out_stems(
    words: tuple[
        Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    ],
    stems: tuple[
        Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    ],
    is_shown: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    n_homes: int,
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """
    Hash table of words and their stems: slots, and the suffixes as data and offsets.
    """

def list_words(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    threads: int,
    is_shown: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)]
    | None = None,
) -> tuple[
    tuple[
        Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    ],
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
]:
    """
    Distinct words of normalized texts, without scripts that have no spaces, in the order in which they first occur, and whether a text that `is_shown` has each.
    """

def number_words(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    is_shown: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    tuple[
        Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    ],
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
]:
    """
    Words of normalized texts: where those of each text start, the number of each, the distinct words in the order of their numbers, and whether a text that `is_shown` has each.
    """

def count_words(
    normalized: tuple[
        Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    ],
    wanted: tuple[
        Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    ],
    threads: int,
) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], int, int]:
    """
    How often normalized texts have each wanted word or "-ending" of others, the longest; all words, and words of a script without spaces.
    """

def unicode_version() -> str:
    """Version of the Unicode tables compiled in."""

def normalize(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """Normalized form of each text."""

def clean_markup(
    data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
) -> tuple[
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
]:
    """
    Each text without HTML tags, its entities decoded; texts without markup stay as they are.
    """

def count_ngrams(
    data: NDArray[numpy.uint8],
    offsets: NDArray[numpy.int64],
    units: NDArray[numpy.uint8],
    lengths: NDArray[numpy.uint8],
    limits: NDArray[numpy.int64],
    min_df: NDArray[numpy.int64],
    budget: int,
    threads: int,
    analyzed: tuple[NDArray[numpy.uint8], NDArray[numpy.int64]] | None = None,
    is_shown: NDArray[numpy.uint8] | None = None,
    *,
    by_key: bool = False,
) -> list[
    tuple[
        NDArray[numpy.uint64],
        NDArray[numpy.uint32],
        tuple[NDArray[numpy.uint8], NDArray[numpy.int64]],
        NDArray[numpy.uint8],
        int,
    ]
]:
    """
    Per kind, the kept n-grams of normalized texts by falling frequency, or by key: keys, df, the n-grams with their spaces, whether a text that `is_shown` has each, and the number of distinct ones. N-grams of words are those of `analyzed`, if given.
    """

def list_ngrams(
    text: str,
    units: NDArray[numpy.uint8],
    lengths: NDArray[numpy.uint8],
    stems: Stems | None = None,
) -> tuple[tuple[NDArray[numpy.uint8], NDArray[numpy.int64]], NDArray[numpy.uint64]]:
    """
    The n-grams of a text as people read them, kind by kind, and their keys.
    """

def lay_out_slots(
    keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)],
    idf: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    n_homes: int,
    threads: int,
) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """Hash table of n-grams as bytes; id i is the i-th key."""

class Vocabulary:
    """Known n-grams over borrowed, possibly memory-mapped arrays."""

    def __init__(
        self,
        slots: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        n_homes: int,
        units: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        lengths: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        n_known: int,
        n_buckets: int,
        unknown_idf: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
        ],
        stems: Stems | None = None,
    ) -> None: ...
    def vectorize(self, text: str) -> tuple[NDArray[numpy.uint32], NDArray[numpy.float32]]:
        """
        Feature ids (ascending) and weights of one text; empty if no n-gram is known.
        """

    def vectorize_all(
        self,
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        threads: int,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    ]:
        """CSR rows of texts: starts, ids, weights."""

    def hash_words(
        self,
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        kind: int,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.uint64], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    ]:
        """
        Words of texts: starts; key, feature or -1, and count of each. `kind` is that of single words.
        """

    def count_unknown(
        self,
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        threads: int,
    ) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Number of texts in which each unknown id occurs."""

class SolverRule:
    """How each binary problem is weighted and when its solver stops."""

    def __init__(
        self,
        *,
        positive_cost: float,
        negative_cost: float,
        bias: float,
        tol: float,
        max_iter: int,
        seed: int,
    ) -> None: ...

class PruneRule:
    """Which weights of a child are kept."""

    def __init__(self, *, threshold: float, max_weights: int) -> None: ...

def sum_instances(
    X: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    n_features: int,
    instances: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    *,
    max_entries: int,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.float32], dict(shape=(None,))],
]:
    """
    Sum of the rows of X listed for each label, cut to its largest entries, of length one; as CSR arrays.
    """

def order_labels(
    Z: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    n_features: int,
    splits: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    *,
    subtree: tuple[int, int, int] | None = None,
    max_iter: int,
    seed: int,
    threads: int,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """
    Labels in an order in which every node of the tree is a range; of a subtree, given by its begin in the order, its level and its parts, if Z has only its labels.
    """

def cut_top(
    Z: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    n_features: int,
    splits: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    *,
    most: int,
    n_sampled: int,
    max_iter: int,
    seed: int,
    threads: int,
) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], list[tuple[int, int, int]]]:
    """
    Labels in the order of subtrees of at most `most` labels, and those: begin, level and parts of each.
    """

def solve_parents(
    X: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    n_features: int,
    instances: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    ],
    positives: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    first_child: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    rule: SolverRule,
    prune: PruneRule,
    *,
    first_parent: int,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint16], dict(shape=(None,))],
    Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    int,
]:
    """
    Weights of the children of some parents of a layer: features of each parent, features, entries of each feature, children, weights, bias of each child, and the number of children whose solver reached max_iter.
    """

def rank_documents(
    index: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    n_documents: int,
    X: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    allowed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)] | None,
    *,
    k: int,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.float32], dict(shape=(None,))],
]:
    """
    The k documents with the largest dot product above zero with each row of X, best first, as CSR arrays. The index holds, for each feature, the documents that have it and its weight there.
    """

def invert(
    documents: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    n_columns: int,
    n_terms: int,
    largest: float,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
]:
    """
    For each of the first columns of documents x terms its documents and their impacts, the largest first.
    """

def pack_layers(
    layers: Sequence[
        tuple[
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
            Sequence[
                tuple[
                    Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                    Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                    Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                    Annotated[
                        NDArray[numpy.uint16], dict(shape=(None,), order="C", writable=False)
                    ],
                    Annotated[
                        NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
                    ],
                    Annotated[
                        NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
                    ],
                ]
            ],
        ]
    ],
    n_features: int,
    *,
    weight_bytes: int,
    is_whole: bool,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.uint32], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
]:
    """
    Packed form of the layers of a tree, or of any of its parents: first block of each, blocks, data (see packed.hpp).
    """

class SearchRule:
    """How many to return, how wide to search, how to score."""

    def __init__(
        self, *, k: int, beam: int, hinge_power: int, is_log: bool, min_score: float
    ) -> None: ...

class Allowed:
    """Labels that a search may return, for one tree."""

    @property
    def total(self) -> int:
        """Number of the tree's labels that are allowed."""

class PackedTree:
    """A view over the arrays of a packed tree."""

    def __init__(
        self,
        first_block: Annotated[
            NDArray[numpy.uint32], dict(shape=(None,), order="C", writable=False)
        ],
        blocks: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        *,
        sizes: Sequence[int],
        n_features: int,
        n_labels: int,
        weight_bytes: int,
    ) -> None: ...
    def allow(
        self,
        is_allowed: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order="C", writable=False)],
    ) -> Allowed:
        """Prepare a filter from one boolean per label."""

    def search_text(
        self, vocabulary: Vocabulary, text: str, rule: SearchRule, allowed: Allowed | None = None
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]:
        """Labels and scores of one text, best first."""

    def search_row(
        self,
        ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
        rule: SearchRule,
        allowed: Allowed | None = None,
    ) -> tuple[
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    ]:
        """Labels and scores of one sparse vector, best first."""

    def search_rows(
        self,
        X: tuple[
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
        ],
        rule: SearchRule,
        allowed: Allowed | None = None,
        *,
        threads: int,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    ]:
        """Offsets, labels and scores of the rows of X, each best first."""

    def search_texts(
        self,
        vocabulary: Vocabulary,
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        rule: SearchRule,
        allowed: Allowed | None = None,
        *,
        threads: int,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    ]:
        """Offsets, labels and scores of texts, each best first."""

    def unpack_parent(
        self, level: int, parent: int
    ) -> tuple[
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.uint16], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    ]:
        """
        Features of a parent, first entry of each, children, weights, and the children's bias.
        """

    def node_weights(
        self,
        level: int,
        node: int,
        features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)]
        | None = None,
    ) -> tuple[
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
        float,
    ]:
        """
        Features and weights of a node, and its bias: all of them, features ascending, or only those among `features`, in that order.
        """

    def strongest(
        self, level: int, node: int, n: int
    ) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The n features with the largest weights of a node, largest first."""

class ProductTexts:
    """Ids and titles of products, each a buffer with offsets."""

    def __init__(
        self,
        ids: tuple[
            Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        ],
        titles: tuple[
            Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        ]
        | None,
    ) -> None: ...

def write_products(
    products: ProductTexts,
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    titles: bool,
) -> bytes:
    """
    Products as a JSON array of objects with id, score and, if wanted and known, title.
    """

def write_ids(
    products: ProductTexts,
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
) -> bytes:
    """Ids of products as a JSON array."""

def decode_parameter(value: bytes) -> str:
    """
    The text of a value in a query string; a UnicodeDecodeError unless it is UTF-8.
    """

def scan_json(body: bytes) -> tuple[int, int, int, int]:
    """
    How many values and keys a JSON text has, how deep it is, and the bytes of its longest string.
    """

class TowerRule:
    """How the two towers learn."""

    def __init__(
        self,
        *,
        dimensions: int,
        temperature: float,
        title_rows: float,
        title_share: float,
        learning_rate: float,
        seed: int,
    ) -> None: ...

def init_table(
    table: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C")],
    *,
    dimensions: int,
    seed: int,
    threads: int,
) -> None:
    """Fill a table with draws of mean zero, in place."""

def shuffled(
    n: int, *, seed: int, epoch: int
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """Numbers below n in an order by chance."""

def train_towers(
    queries: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    ],
    titles: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    ],
    positives: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    ],
    pairs: tuple[
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    ],
    titled: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    table: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C")],
    squares: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C")],
    rule: TowerRule,
    *,
    n_batches: int,
    begin: int,
    end: int,
    first_step: int,
    n_steps: int,
    threads: int,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
    """
    Train batches begin to end of an epoch, table and squares in place; the mean loss of each.
    """

def quantize(
    vectors: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    *,
    dimensions: int,
) -> tuple[
    Annotated[NDArray[numpy.int8], dict(shape=(None,))],
    Annotated[NDArray[numpy.float32], dict(shape=(None,))],
]:
    """Vectors as bytes and a scale for each."""

def encode_texts(
    texts: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    ],
    row_of: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    table: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    *,
    dimensions: int,
    threads: int,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
    """
    Mean of the embeddings of each text's features, of length one; zero where it has none.
    """

def order_vectors(
    vectors: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    splits: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    *,
    dimensions: int,
    max_passes: int,
    seed: int,
    threads: int,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """Vectors in an order in which every cluster is a range."""

def mean_vectors(
    vectors: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    *,
    dimensions: int,
    threads: int,
) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
    """Mean of each range of vectors, of length one."""

def assign_clusters(
    vectors: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    group_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    groups: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    clusters: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    *,
    dimensions: int,
    n_groups: int,
    threads: int,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """The nearest cluster of each vector, found in its nearest groups."""

def assign_near(
    vectors: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    begins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    first: int,
    group_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    groups: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    clusters: tuple[
        Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    ],
    *,
    dimensions: int,
    n_groups: int,
    n_near: int,
    threads: int,
) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """
    The nearest cluster of each vector among those near its own; vectors are in the order of their clusters.
    """

def search_lists(
    offsets: tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    ],
    vectors: tuple[
        tuple[
            Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
        ],
        tuple[
            Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
        ],
        tuple[
            Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
        ],
    ],
    labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
    queries: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    *,
    dimensions: int,
    allowed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    n_groups: int,
    n_lists: int,
    k: int,
    threads: int,
) -> tuple[
    Annotated[NDArray[numpy.int64], dict(shape=(None,))],
    Annotated[NDArray[numpy.int32], dict(shape=(None,))],
    Annotated[NDArray[numpy.float32], dict(shape=(None,))],
]:
    """
    The k nearest products in the clusters nearest to each query: offsets, labels, cosines.
    """

class SearchBounds:
    """How much each candidate source reads and proposes."""

    def __init__(
        self,
        *,
        tree_beam: int,
        tree_products: int,
        groups: int,
        lists: int,
        list_products: int,
        lexical_postings: int,
        lexical_products: int,
        neighbor_postings: int,
        neighbors: int,
        neighbor_products: int,
        cold_share: float = 0.0,
        cold_shift: float = 0.0,
    ) -> None: ...

class MatchSetFilter:
    """Products that a match set may return."""

class MatchSet:
    """A view over the parts of a match set; None for one that is left out."""

    def __init__(
        self,
        *,
        tree: object | None,
        towers: tuple[
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            tuple[
                Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
            ],
            tuple[
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
            ],
            tuple[
                tuple[
                    Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
                    Annotated[
                        NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
                    ],
                ],
                tuple[
                    Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
                    Annotated[
                        NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
                    ],
                ],
                tuple[
                    Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
                    Annotated[
                        NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
                    ],
                ],
            ],
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            int,
        ]
        | None,
        lexical: tuple[
            tuple[
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
            ],
            tuple[
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
            ],
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            float,
            int,
        ]
        | None,
        past: tuple[
            tuple[
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
            ],
            tuple[
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
            ],
            Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        ]
        | None,
        popularity: Annotated[
            NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
        ],
        recent: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
        reranker: tuple[
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        ],
        added: tuple[
            tuple[
                int,
                Annotated[NDArray[numpy.uint64], dict(shape=(None,), order="C", writable=False)],
                tuple[
                    Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                    Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                    Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
                ],
                tuple[
                    Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                    Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                    Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
                ],
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            ],
            tuple[
                Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
                tuple[
                    Annotated[NDArray[numpy.int8], dict(shape=(None,), order="C", writable=False)],
                    Annotated[
                        NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)
                    ],
                ],
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
                Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            ],
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        ]
        | None = None,
        heirs: tuple[
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
            Annotated[NDArray[numpy.int32], dict(shape=(None,), order="C", writable=False)],
        ]
        | None = None,
    ) -> None: ...
    def allow(
        self,
        is_allowed: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order="C", writable=False)],
    ) -> MatchSetFilter:
        """Prepare a filter from one boolean per product."""

    def search_text(
        self,
        vocabulary: Vocabulary,
        text: str,
        k: int,
        bounds: SearchBounds,
        allowed: MatchSetFilter | None = None,
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]:
        """Labels and calibrated scores of one text, best first."""

    def answer(
        self,
        vocabulary: Vocabulary,
        k: int,
        bounds: SearchBounds,
        products: ProductTexts,
        titles: bool,
        head: bytes,
        text: str,
        with_ids: bool,
    ) -> tuple[bytes, int, int, bytes]:
        """
        `head` with query, microseconds and products of one text as JSON; how many products, microseconds, ids.
        """

    def search_texts(
        self,
        vocabulary: Vocabulary,
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        k: int,
        bounds: SearchBounds,
        allowed: MatchSetFilter | None = None,
        *,
        threads: int,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
    ]:
        """Offsets, labels and calibrated scores of texts, each best first."""

    def features(
        self,
        vocabulary: Vocabulary,
        data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
        offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
        bounds: SearchBounds,
        allowed: MatchSetFilter | None = None,
        *,
        threads: int,
    ) -> tuple[
        Annotated[NDArray[numpy.int64], dict(shape=(None,))],
        Annotated[NDArray[numpy.int32], dict(shape=(None,))],
        Annotated[NDArray[numpy.float32], dict(shape=(None,))],
        Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
        Annotated[NDArray[numpy.uint8], dict(shape=(None,))],
    ]:
        """
        Offsets, labels, features and sources of the candidates of texts, as search ranks them; situations of texts.
        """

def feature_names() -> list[str]:
    """Names of a candidate's features, in their order."""

def fit_softmax(
    features: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", writable=False)],
    offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order="C", writable=False)],
    is_positive: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    kinds: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order="C", writable=False)],
    shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    center: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    precision: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
    *,
    n_kinds: int,
    threads: int,
) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """
    Weights of each kind and feature, of a softmax over the candidates of each query, near a center.
    """

def log_fixed(
    values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order="C", writable=False)],
) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """Natural logarithms of positive numbers, the same on every machine."""
