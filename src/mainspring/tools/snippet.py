"""A few numbered lines of a text, for the model to see what a change came to."""

AROUND = 4  # lines before and after
MOST_LINES = 40
LONGEST = 500  # characters of a line; it is a reminder, not a reading


def number_lines(lines: list[str], first: int) -> str:
    """As Read shows them. `first` is the number of the first one."""
    return "".join([f"{number}\t{_short(line.rstrip(chr(10)))}\n" for number, line in enumerate(lines, first)])


def snippet_around(lines: list[str], start: int, end: int) -> str:
    """The lines from `start` to `end`, counted from 0, and those around them."""
    first, last = max(0, start - AROUND), min(len(lines), end + AROUND)
    if last - first <= MOST_LINES:
        return number_lines(lines[first:last], first + 1)
    half = MOST_LINES // 2
    left_out = last - first - 2 * half
    head, tail = lines[first : first + half], lines[last - half : last]
    return f"{number_lines(head, first + 1)}[{left_out:,} lines]\n{number_lines(tail, last - half + 1)}"


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} [... {len(line) - LONGEST:,} more characters]"
