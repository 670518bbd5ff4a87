"""Kinds: which matchers does the lab bring, for comparisons? Found by their entry points."""

from matchset.matchers.registry import Kind

_DSSM = "matchset.lab.dssm"
DSSM = Kind("dssm", "DSSM", f"{_DSSM}.exact:DSSM", "#9a5fd1")
DSSM_HNSW = Kind("dssm_hnsw", "DSSM + HNSW", f"{_DSSM}.hnsw:DSSMWithHNSW", "#7e22ce")
DSSM_INT8 = Kind("dssm_int8", "DSSM, int8 scan", f"{_DSSM}.int8:DSSMWithInt8", "#c026d3")
SENTENCE_ENCODER = Kind(
    "sentence_encoder",
    "Sentence encoder + HNSW",
    "matchset.lab.dssm.sentence_encoder:SentenceEncoder",
    "#0e7490",
)
