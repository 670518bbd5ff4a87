"""How is my own log read? Columns and events have their own names, and times their own format."""

from pathlib import Path

import matchset as ms

Path("clicks.csv").write_text(
    "when;suche;artikel;aktion\n"
    "03.11.2026 09:12;rotes sofa;A1;Klick\n"
    "03.11.2026 09:14;rotes sofa;A1;Kauf\n"
    "04.11.2026 18:30;Sofa;A2;Klick\n"
    "05.11.2026 10:01;;A2;Klick\n",  # no query: dropped, counted, and said
    encoding="cp1252",
)
log = ms.read_log(
    "clicks.csv",
    query="suche",
    product="artikel",
    event="aktion",
    timestamp="when",
    time_format="%d.%m.%Y %H:%M",
    encoding="cp1252",
)
print(log)
print(log.report)  # what could not be used

# Which events make a product an answer, and how much does each count?
pairs = ms.positives(log, events={"Kauf": 1.0, "Klick": 0.2}, min_count=1.0)
print(pairs)
