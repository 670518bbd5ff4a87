"""Read back the records that a server wrote."""

import json

from matchset.online.records import EventRecord, QueryRecord, ShadowRecord


def read_records(folder, stream):
    """Every record of a stream, without the one that is just being written."""
    for file in sorted(folder.glob(f"{stream}*.jsonl")):
        with file.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield json.loads(line)


def read_query_record(document):
    attributes = document["query_attributes"]
    origins = attributes.get("from")
    return QueryRecord(
        experiment=attributes["experiment"],
        arm=attributes["arm"],
        unit=document["client_id"],
        query_id=document["query_id"],
        query=document["user_query"],
        timestamp=document["timestamp"],
        ids=tuple(document["query_response_hit_ids"]),
        origins=None if origins is None else tuple(origins),
        microseconds=attributes["microseconds"],
        model_version=attributes["model_version"],
    )


def read_event_record(document):
    attributes = document["event_attributes"]
    return EventRecord(
        action=document["action_name"],
        query_id=document["query_id"],
        product=attributes["object"]["object_id"],
        timestamp=document["timestamp"],
        position=attributes.get("position", {}).get("ordinal"),
        revenue=attributes.get("revenue"),
    )


def read_shadow_record(document):
    attributes = document["query_attributes"]
    return ShadowRecord(
        query_id=document["query_id"],
        timestamp=document["timestamp"],
        matcher=attributes["matcher"],
        ids=tuple(document["query_response_hit_ids"]),
        shadow=attributes["shadow"],
        shadow_ids=tuple(attributes["shadow_hit_ids"]),
        model_version=attributes["model_version"],
        query=document.get("user_query"),
    )
