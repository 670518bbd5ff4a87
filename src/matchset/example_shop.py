"""Example shop: what can be tried without a log of one's own?

A small shop for examples, tests and `matchset demo`. Its customers use brands, sizes, colors,
synonyms and occasions, and misspell some of it. Figures about recall are of the lab's larger shops.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.errors import ParameterError

START = datetime(2026, 3, 1)  # the log's first day
DEPARTMENTS = {  # brands, and how much customers prefer each to the next
    "Shoes": "Norvik Halden Strada Alto Mirra Pico",
    "Clothing": "Fjellby Lunaro Osterby Tessa Cardon Wren",
    "Furniture": "Bergholt Lume Ekeby Morland Tidewell",
    "Kitchen": "Brightwell Cuciva Ketter Ovata Sabor",
    "Electronics": "Zenitron Pixora Auralis Voltan Quantec",
    "Outdoor": "Ridgeway Tundra Campano Zephyr Sierran",
}
COLORS = ("black", "white", "grey", "navy", "blue", "red", "green", "beige", "brown", "pink")
LINES = ("Aero", "Storm", "Classic", "Nova", "Terra", "Luna", "Urban", "Comfort", "Prime", "Vista")
SHOE = tuple(f"Size {size}" for size in range(36, 47))
CLOTHES = tuple(f"Size {size}" for size in ("XS", "S", "M", "L", "XL", "XXL"))
BED, DESK = ("90 x 200 cm", "140 x 200 cm", "160 x 200 cm"), ("100 x 60 cm", "140 x 70 cm")
SEATS, LITERS, INCHES = ("2 Seater", "3 Seater"), ("1 l", "2 l", "5 l"), ("24 inch", "32 inch")


@dataclass(frozen=True, slots=True)
class Thing:
    """One kind of product; synonyms and occasions are in queries only, never in titles."""

    department: str
    name: str
    synonyms: tuple[str, ...]
    features: str
    sizes: tuple[str, ...]
    price: int  # of the cheapest
    occasions: tuple[str, ...] = ()


THINGS = (
    Thing(
        "Shoes", "running shoes", ("jogging shoes", "trainers"), "trail light", SHOE, 60, ("gym",)
    ),
    Thing(
        "Shoes", "hiking boots", ("walking boots",), "waterproof leather", SHOE, 90, ("trekking",)
    ),
    Thing("Shoes", "sandals", ("flip flops",), "leather cork", SHOE, 25, ("beach",)),
    Thing("Shoes", "rain boots", ("wellies", "gumboots"), "lined short", SHOE, 30, ("garden",)),
    Thing("Clothing", "rain jacket", ("raincoat", "anorak"), "hooded padded", CLOTHES, 50),
    Thing("Clothing", "hoodie", ("hooded sweatshirt",), "zip fleece", CLOTHES, 30, ("gym",)),
    Thing("Clothing", "trousers", ("pants", "chinos"), "slim cotton", CLOTHES, 35, ("office",)),
    Thing("Clothing", "jumper", ("sweater", "pullover"), "merino knitted", CLOTHES, 40),
    Thing(
        "Clothing", "swim shorts", ("swimming trunks",), "quick-dry long", CLOTHES, 20, ("beach",)
    ),
    Thing(
        "Furniture", "sofa bed", ("sleeper couch", "pull out couch"), "velvet corner", SEATS, 400
    ),
    Thing("Furniture", "sofa", ("couch", "settee"), "leather velvet corner", SEATS, 300),
    Thing("Furniture", "bed frame", ("bedstead",), "oak upholstered", BED, 150, ("bedroom",)),
    Thing("Furniture", "mattress", ("bed topper",), "firm memory-foam", BED, 120, ("bedroom",)),
    Thing(
        "Furniture", "desk", ("writing table",), "oak height-adjustable", DESK, 90, ("home office",)
    ),
    Thing(
        "Furniture", "office chair", ("swivel chair",), "mesh ergonomic", (), 80, ("home office",)
    ),
    Thing("Furniture", "bookcase", ("book shelf", "shelving"), "oak narrow", (), 60, ("bedroom",)),
    Thing("Kitchen", "kettle", ("water boiler",), "electric glass", LITERS, 25, ("tea",)),
    Thing("Kitchen", "frying pan", ("skillet",), "non-stick cast-iron", (), 20),
    Thing("Kitchen", "saucepan", ("cooking pot",), "steel enamel", LITERS, 20, ("pasta",)),
    Thing(
        "Kitchen", "coffee machine", ("espresso maker",), "automatic capsule", (), 80, ("barista",)
    ),
    Thing("Kitchen", "food storage box", ("tupperware", "meal prep"), "glass stackable", LITERS, 8),
    Thing(
        "Electronics", "monitor", ("computer screen",), "curved 4k", INCHES, 120, ("home office",)
    ),
    Thing("Electronics", "television", ("tv", "flat screen"), "oled 4k smart", INCHES, 180),
    Thing("Electronics", "headphones", ("headset",), "wireless noise-cancelling", (), 30, ("gym",)),
    Thing("Electronics", "earbuds", ("airpods", "earphones"), "wireless sport", (), 20, ("gym",)),
    Thing("Electronics", "phone charger", ("usb plug",), "fast wireless", (), 10, ("travel",)),
    Thing(
        "Outdoor", "tent", ("camping shelter",), "2-person family", (), 70, ("camping", "festival")
    ),
    Thing(
        "Outdoor", "sleeping bag", ("mummy bag",), "down winter", (), 40, ("camping", "festival")
    ),
    Thing("Outdoor", "backpack", ("rucksack",), "hiking laptop", (), 40, ("trekking", "travel")),
    Thing("Outdoor", "camping stove", ("gas cooker",), "compact folding", (), 25, ("camping",)),
    Thing("Outdoor", "water bottle", ("drinking flask",), "insulated steel", LITERS, 12, ("gym",)),
    Thing(
        "Outdoor",
        "garden chair",
        ("deck chair", "lawn chair"),
        "folding wooden",
        (),
        30,
        ("garden",),
    ),
)


@dataclass(frozen=True, slots=True)
class Product:
    """One product. Its weight is how often customers choose it, which its title does not say."""

    id: str
    thing: Thing
    details: dict[str, str]  # brand, feature, color, size: as in the title
    title: str
    price: float
    weight: float
    first_day: int  # on sale


@dataclass(frozen=True, slots=True)
class DemoShop:
    """A log and its catalog."""

    log: Log
    catalog: Catalog


def demo_shop(
    *, products: int = 3000, searches: int = 40_000, days: int = 150, seed: int = 0
) -> DemoShop:
    """Return the log and the catalog of a made-up shop; equal arguments give the same shop."""
    with TemporaryDirectory() as folder:
        events, goods = write_demo_shop(
            Path(folder), products=products, searches=searches, days=days, seed=seed
        )
        return DemoShop(read_log(str(events)), read_catalog(str(goods)))


def write_demo_shop(
    folder: Path, *, products: int = 3000, searches: int = 40_000, days: int = 150, seed: int = 0
) -> tuple[Path, Path]:
    """Write a made-up shop as most shops have it: events.csv and products.csv."""
    for name, value in {"products": products, "searches": searches, "days": days}.items():
        if value < 1:
            raise ParameterError(f"must be at least 1; got {value}", parameter=name)
    chance = random.Random(seed)  # noqa: S311
    goods = _stock(products, days, chance)
    rows = ((p.id, p.title, p.details["brand"], p.thing.department, p.price) for p in goods)
    events = folder / "events.csv", ("time", "query", "product_id", "event")
    catalog = folder / "products.csv", ("product_id", "title", "brand", "department", "price")
    _write(*events, _visits(goods, searches, days, chance))
    _write(*catalog, rows)
    return events[0], catalog[0]


def _write(file: Path, header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([header, *rows])


def _stock(n: int, days: int, chance: random.Random) -> list[Product]:
    """Make products; a tenth of them come while the log is running."""
    stock = []
    for number in range(n):
        thing = THINGS[number % len(THINGS)]
        brands = DEPARTMENTS[thing.department].split()
        rank = int(len(brands) * chance.random() ** 2)
        details = {"brand": brands[rank], "feature": chance.choice(thing.features.split())}
        details["color"] = chance.choice(COLORS)
        line = f"{chance.choice(LINES)} {chance.randrange(100, 1000, 10)}"
        words = [details["brand"], line, details["feature"].title(), thing.name.title()]
        title = f"{' '.join(words)}, {details['color'].title()}"
        if thing.sizes:
            details["size"] = chance.choice(thing.sizes)
            title += f", {details['size']}"
        price = round(thing.price * (1 + 2 * chance.random() ** 2), 2)
        weight = min(chance.paretovariate(1), 30) / (1 + rank)  # some sell far more than others
        first_day = chance.randrange(days) if chance.random() < 0.1 else 0
        stock.append(Product(f"P{number:05}", thing, details, title, price, weight, first_day))
    return stock


def _visits(
    stock: list[Product], searches: int, days: int, chance: random.Random
) -> Iterator[tuple[object, ...]]:
    """Search, click and buy: what fits the words, the popular before the others."""
    weights = [product.weight for product in stock]
    by_thing: dict[str, list[Product]] = {thing.name: [] for thing in THINGS}
    for product in stock:
        by_thing[product.thing.name].append(product)
    times = sorted(chance.randrange(days * 24 * 3600) for _ in range(searches))
    wanted = chance.choices(stock, weights, k=searches)
    for second, product in zip(times, wanted, strict=True):
        named, details = _choose_words(product.thing, product.details, chance)
        fitting = [
            other
            for thing in THINGS
            if thing.name == product.thing.name or named in thing.occasions
            for other in by_thing[thing.name]
            if other.first_day <= second // 86_400
            and all(other.details.get(name) == value for name, value in details.items())
        ]
        if not fitting:  # it is not on sale yet
            continue
        query = _write_query(named, details, chance)
        time = (START + timedelta(seconds=second)).isoformat(" ")
        clicked = chance.choices(
            fitting, [p.weight for p in fitting], k=chance.choice((1, 1, 2, 3))
        )
        for other in clicked:
            yield time, query, other.id, "click"
        if chance.random() < 0.3:
            yield time, query, clicked[-1].id, "purchase"


def _choose_words(
    thing: Thing, details: dict[str, str], chance: random.Random
) -> tuple[str, dict[str, str]]:
    """Choose what a customer calls a thing, and which details of it matter."""
    kind = chance.random()
    if thing.occasions and kind < 0.08:
        return chance.choice(thing.occasions), {}
    named = chance.choice(thing.synonyms) if kind < 0.35 else thing.name
    odds = {"brand": 0.25, "feature": 0.25, "color": 0.2, "size": 0.2}
    return named, {name: details[name] for name in details if chance.random() < odds[name]}


def _write_query(named: str, details: dict[str, str], chance: random.Random) -> str:
    size = details.get("size", "").lower()
    if chance.random() < 0.5:  # "42" for "size 42", "140x200" for "140 x 200 cm"
        size = size.removeprefix("size ").removesuffix(" cm").replace(" x ", "x")
    words = [details.get(name, "") for name in ("brand", "color", "feature")]
    words = [word for word in [*words, named, size] if word]
    if chance.random() < 0.1:
        chance.shuffle(words)
    return _misspell(" ".join(words).lower(), chance) if chance.random() < 0.08 else " ".join(words)


def _misspell(text: str, chance: random.Random) -> str:
    """Leave out, double or exchange a letter."""
    at = chance.randrange(max(1, len(text) - 1))
    left, letters, right = text[:at], text[at : at + 2], text[at + 2 :]
    return left + chance.choice((letters[1:], letters[0] + letters, letters[::-1])) + right
