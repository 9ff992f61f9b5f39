"""A small shop's stock: what is there, what it is worth and what has to be ordered."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


class OutOfStock(Exception):
    """More was asked for than there is."""


@dataclass
class Item:
    """One kind of thing on the shelf."""

    name: str
    price: float
    count: int = 0
    tags: set[str] = field(default_factory=set)

    @property
    def value(self) -> float:
        """What all pieces are worth together."""
        return self.price * self.count

    def matches(self, word: str) -> bool:
        """Whether the word is in the name or is one of the tags."""
        word = word.lower()
        return word in self.name.lower() or word in self.tags


@dataclass
class Movement:
    """So many pieces came in, or went out if the count is negative."""

    name: str
    count: int


class Stock:
    """All items, by name, and every movement since the start."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items: dict[str, Item] = {item.name: item for item in items}
        self._movements: list[Movement] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def add(self, item: Item) -> None:
        """Take a new kind of item into the stock."""
        if item.name in self._items:
            raise ValueError(f"{item.name} is in the stock already")
        self._items[item.name] = item

    def get(self, name: str) -> Item:
        """The item of this name. Raises KeyError if there is none."""
        return self._items[name]

    def put(self, name: str, count: int) -> int:
        """Put pieces on the shelf. Returns how many there are then."""
        if count <= 0:
            raise ValueError("the count must be positive")
        item = self.get(name)
        item.count += count
        self._movements.append(Movement(name, count))
        return item.count

    def take(self, name: str, count: int = 1) -> int:
        """Take pieces from the shelf. Returns how many are left."""
        item = self.get(name)
        if count > item.count:
            raise OutOfStock(f"{name}: {count} wanted, {item.count} left")
        item.count -= count
        self._movements.append(Movement(name, -count))
        return item.count

    def search(self, word: str) -> list[Item]:
        """The items that match a word, by name."""
        found = [item for item in self if item.matches(word)]
        return sorted(found, key=lambda item: item.name)

    def value(self) -> float:
        """What the whole stock is worth."""
        return sum(item.value for item in self)

    def to_order(self, least: int) -> dict[str, int]:
        """How many pieces of each item are missing to have at least so many."""
        return {item.name: least - item.count for item in self if item.count < least}

    def sold(self) -> Counter[str]:
        """How many pieces of each item have gone out."""
        total: Counter[str] = Counter()
        for movement in self._movements:
            if movement.count < 0:
                total[movement.name] -= movement.count
        return total


def read_stock(path: Path) -> Stock:
    """The stock in a CSV file with the columns name, price, count and tags."""
    stock = Stock()
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            tags = set(row["tags"].split())
            stock.add(Item(row["name"], float(row["price"]), int(row["count"]), tags))
    return stock


def write_stock(stock: Stock, path: Path) -> None:
    """Write the stock as `read_stock` reads it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "price", "count", "tags"])
        for item in stock:
            writer.writerow([item.name, item.price, item.count, " ".join(sorted(item.tags))])
