"""A picture for each example of the gallery: what its model has learned, drawn from the model that the example trained.

A function has the name of its example, takes the example's module and what `watch` kept of its run, and gives the
picture.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import extempo as ex
from extempo import nn
from extempo.data import DistributedSampler
from extempo.distributed import CostSampler
from extempo.inspect.svg import COLOURS, FAINT, GRID, INK, PAPER, Picture

BLUE, ORANGE, GREEN, _, YELLOW, RED = COLOURS
LIGHT_BLUE, LIGHT_ORANGE = "#c7dbec", "#f3d5c7"
WIDTH = 520  # of every picture, so that its words can be read on a phone, too


class Kept(NamedTuple):
    """A model as it was made, and as the example left it."""

    untrained: nn.Module
    model: nn.Module


MODELS = {  # the class of each example's model
    "char_rnn": "Writer",
    "early_exit": "Reader",
    "gpt_names": "GPT",
    "many_machines": "TreeClassifier",
    "message_passing": "Messenger",
    "reading_sentences": "Reader",
    "reinforce": "Policy",
    "served_reviews": "Classifier",
    "shift_reduce": "Parser",
    "tree_lstm": "Evaluator",
    "vae": "VAE",
    "watched_reader": "Reader",
}


def watch(example: ModuleType, name: str) -> list[Any]:
    """Arranges that the example's run fills this list: with its model, or with each stage of the one that grows."""
    kept: list[Any] = []
    if name == "growing_network":
        grow = example.grow

        def growing(model: nn.Sequential) -> str:
            kept.append(copy.deepcopy(model))
            if len(kept) == 1:
                kept.append(model)  # the last stage, which goes on growing
            return str(grow(model))

        example.__dict__["grow"] = growing
    else:
        of_model = getattr(example, MODELS[name])

        def made(*args: Any) -> nn.Module:
            model = of_model(*args)
            kept.append(Kept(copy.deepcopy(model), model))
            return model

        example.__dict__[MODELS[name]] = made
    return kept


def draw(example: ModuleType, name: str, kept: list[Any]) -> Picture:
    with ex.no_grad():
        return DRAWN_BY[name](example, kept)


def _titled(title: str, height: float) -> Picture:
    picture = Picture(WIDTH, height, title)
    picture.text(16, 26, title, size=16, font_weight="bold")
    return picture


def char_rnn(example: ModuleType, kept: list[Kept]) -> Picture:
    """Sentences, each character the darker the less the model expected it."""
    sentences = ["the cat sees 3 dogs.", "the cat see 3 dogs.", "4 dogs see the bird.", "4 dogs sees the bird."]
    picture = _titled("What the model did not expect is dark", 62 + 46 * len(sentences))
    for row, sentence in enumerate(sentences):
        codes = [example.END, *(example.CODE[character] for character in sentence)]
        scores, _ = kept[0].model(ex.tensor([codes[:-1]]))
        expected = scores[0].softmax(-1)[range(len(sentence)), codes[1:]].tolist()
        for i, (character, share) in enumerate(zip(sentence, expected, strict=True)):
            x, y = 16 + 23 * i, 46 + 46 * row
            title = f"{character!r} was expected with {share:.1%}"
            picture.rect(x, y, 23, 32, title=title, fill=ORANGE, fill_opacity=0.9 * (1 - share))
            picture.text(x + 11.5, y + 22, character, size=17, anchor="middle", font_family="monospace")
    return picture


def early_exit(example: ModuleType, kept: list[Kept]) -> Picture:
    """Scores of some sequences up to the step at which the reader is sure."""
    model: Any = kept[0].model
    ex.manual_seed(4)
    sequences, labels = example.numbers(12, 48)
    picture = _titled("It reads on until it is sure", 300)
    left, middle, high, step = 40, 170, 34.0, 9.6
    for side in (1, -1):
        y = middle - side * high * model.sure
        picture.line(left, y, WIDTH - 16, y, stroke=FAINT, stroke_dasharray="4 4")
        picture.text(WIDTH - 16, y - side * 8 + 4, f"sure: source {'A' if side > 0 else 'B'}", size=12, anchor="end")
    picture.line(left, middle, WIDTH - 16, middle)
    for scores, label in zip(model.all_scores(sequences).tolist(), labels.tolist(), strict=True):
        n_read = next((i + 1 for i, s in enumerate(scores) if abs(s) >= model.sure), len(scores))
        points = [(left, middle), *((left + step * (i + 1), middle - high * s) for i, s in enumerate(scores[:n_read]))]
        colour = BLUE if label else ORANGE
        picture.path(points, stroke=colour)
        picture.circle(*points[-1], 4, fill=colour, title=f"source {'A' if label else 'B'}, {n_read} numbers read")
    picture.text(left, 290, "numbers read", size=12)
    return picture


def gpt_names(example: ModuleType, kept: list[Kept]) -> Picture:
    """Which vowel may follow, by the vowels before; and names that the model made up."""
    model, vowels = kept[0].model, "aouei"
    picture = _titled("The next vowel depends on those before", 400)
    for panel, (before, colour) in enumerate([("bakut", BLUE), ("biket", ORANGE), ("b", FAINT)]):
        letters = [0, *(example.CODE[letter] for letter in before)]
        scores = model(ex.tensor([letters]), ex.arange(len(letters)).unsqueeze(0))[0, -1].softmax(0)
        left, bottom = 16 + 172 * panel, 196
        picture.text(left, 56, f"after “{before}”", size=14)
        picture.line(left, bottom, left + 144, bottom, stroke=FAINT)
        for i, vowel in enumerate(vowels):
            share = scores[example.CODE[vowel]].item()
            height = 170 * share
            x = left + 30 * i
            picture.rect(x, bottom - height, 22, height, title=f"{vowel}: {share:.1%}", fill=colour)
            picture.text(x + 11, bottom + 18, vowel, size=14, anchor="middle")
    picture.text(16, 250, "names that it made up, by their vowels (red: mixed)", size=14)
    names = [example.invent(model) for _ in range(16)]
    for i, name in enumerate(names):
        colour = BLUE if set(name) & set("aou") and not set(name) & set("ei") else ORANGE
        x, y = 16 + 126 * (i % 4), 280 + 30 * (i // 4)
        picture.text(x, y, name, size=15, fill=colour if example.is_harmonious(name) else RED)
    return picture


def growing_network(example: ModuleType, kept: list[Any]) -> Picture:
    """Where each stage of the network draws the line between two spirals."""
    first, last, *others = kept
    stages = [first, *others, last]
    side, n_cells, reach = 150, 25, 3.4
    picture = _titled("The line between the spirals, stage by stage", 52 + 184 * ((len(stages) + 2) // 3))
    ex.manual_seed(0)
    points, labels = example.spirals(90)
    for i, stage in enumerate(stages):
        left, top = 16 + 168 * (i % 3), 66 + 184 * (i // 3)
        units = [str(layer.out_features) for layer in stage if isinstance(layer, nn.Linear)][:-1]
        right = (stage(points).argmax(1) == labels).float().mean().item()
        picture.text(left, top - 7, f"{' + '.join(units)} units: {right:.0%}", size=13)
        places = ex.tensor([reach * (2 * (k + 0.5) / n_cells - 1) for k in range(n_cells)])
        grid = ex.stack([places.repeat(n_cells), places.repeat_interleave(n_cells)], 1)
        classes = stage(grid).argmax(1).reshape(n_cells, n_cells).tolist()
        cell = side / n_cells
        picture.rect(left, top, side, side, fill=LIGHT_BLUE)
        for row, line in enumerate(classes):
            for value, start, n in runs(line):
                if value:
                    picture.rect(left + cell * start, top + cell * row, cell * n, cell, fill=LIGHT_ORANGE)
        for (x, y), label in zip(points.tolist(), labels.tolist(), strict=True):
            across, down = (side * (value / reach + 1) / 2 for value in (x, y))
            picture.circle(left + across, top + down, 1.8, fill=(BLUE, ORANGE)[label])
    return picture


def runs(values: list[int]) -> Iterator[tuple[int, int, int]]:
    """(value, where it begins, how often it stands there) for each stretch of equal values."""
    start = 0
    for value, group in itertools.groupby(values):
        n = len(list(group))
        yield value, start, n
        start += n


def message_passing(example: ModuleType, kept: list[Kept]) -> Picture:
    """One graph: a column for each distance, in each node what the model says."""
    edges, distances = example.draw_graph(random.Random(7), 20)
    *batch, classes, n_rounds = example.side_by_side([(edges, distances)])
    said = kept[0].model(*batch, n_rounds).argmax(1).tolist()
    columns: dict[int, list[int]] = {}
    for node, distance in enumerate(distances):
        columns.setdefault(min(distance, example.FARTHEST), []).append(node)
    tallest = max(map(len, columns.values()))
    picture = _titled("Each node says how far it is from the marked one", 92 + 44 * tallest)
    pitch = (WIDTH - 72) / max(columns)
    place = {
        node: (36 + pitch * distance, 74 + 44 * (i + (tallest - len(nodes)) / 2))
        for distance, nodes in columns.items()
        for i, node in enumerate(nodes)
    }
    for a, b in {(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]}:
        picture.line(*place[a], *place[b], stroke=FAINT, stroke_opacity=0.6)
    for node, (x, y) in place.items():
        is_right = said[node] == classes[node].item()
        colour = RED if not is_right else YELLOW if node == 0 else BLUE
        farther = "+" if said[node] == example.FARTHEST else ""
        picture.circle(x, y, 15, fill=PAPER, stroke=colour, stroke_width=2, title=f"distance {distances[node]}")
        picture.text(x, y + 5, f"{said[node]}{farther}", size=14, anchor="middle", fill=colour)
    return picture


def reading_sentences(example: ModuleType, kept: list[Kept]) -> Picture:
    """One sentence, asked for each name in it: the words that the answer is taken from."""
    model: Any = kept[0].model
    sentence = "well , ann has 4 pears and oh bob has 7 figs then eve has 2 limes , kim has 9 pears"
    words, names = sentence.split(), ("ann", "bob", "eve", "kim")
    picture = _titled("Where it looks for the answer", 50 + 96 * len(names))
    for row, name in enumerate(names):
        codes, asked, _ = example.tensors([(words, name, 0)])
        states, weights = model.attention(codes[0], asked[0])
        x, y = 16.0, 80.0 + 96 * row
        picture.text(x, y - 18, f"{name}? {model.out(weights @ states).argmax().item()}", size=15, font_weight="bold")
        for word, share in zip(words, weights[0].tolist(), strict=True):
            width = 10 + 9 * len(word)
            if x + width > WIDTH - 16:
                x, y = 16, y + 28
            picture.rect(x, y - 10, width, 24, title=f"{word}: {share:.0%}", fill=BLUE, fill_opacity=0.08 + 0.7 * share)
            picture.text(x + width / 2, y + 7, word, size=14, anchor="middle", font_family="monospace")
            x += width + 3
    return picture


def reinforce(example: ModuleType, kept: list[Kept]) -> Picture:
    """Balls on their way down and baskets on their way below them, before and after learning."""
    picture = _titled("Does the basket get below the ball?", 424)
    for row, (label, policy) in enumerate([("untrained", kept[0].untrained), ("trained", kept[0].model)]):
        top = 66 + 184 * row
        picture.text(16, top - 8, label, size=14)
        for column, seed in enumerate((3, 11, 17, 29)):
            _episode(picture, 16 + 126 * column, top, example.Catch(seed), policy)
    return picture


def _episode(picture: Picture, left: float, top: float, world: Any, policy: Any) -> None:
    cell, height, reward = 15, world.height, None
    picture.rect(left, top, 7 * cell, 9.6 * cell, fill=GRID, fill_opacity=0.35)
    ways: list[tuple[int, int]] = [(world.ball, world.basket)]
    while reward is None:
        reward = world.move(policy.net(ex.tensor(world.view())).argmax().item())
        ways.append((world.ball, world.basket))
    colour = GREEN if reward > 0 else RED
    down = [top + cell * (0.5 + 8 * i / height) for i in range(len(ways))]
    balls = [(left + cell * (ball + 0.5), y) for (ball, _), y in zip(ways, down, strict=True)]
    picture.path(balls, stroke=FAINT, stroke_dasharray="3 3")
    for (x, y), (_, basket) in zip(balls, ways, strict=True):
        picture.circle(x, y, 3, fill=INK)
        picture.rect(left + cell * basket, y + 5, cell, 3, fill=colour, fill_opacity=0.55)
    bottom = top + 9.1 * cell
    end = "caught" if reward > 0 else "missed"
    picture.rect(left + cell * ways[-1][1] - 2, bottom, cell + 4, 5, fill=colour, title=end)


def shift_reduce(example: ModuleType, kept: list[Kept]) -> Picture:
    """The trees that the parser builds for one expression, before and after learning."""
    expression = "x + x * x ^ x ^ x + x"
    trees = [("untrained", kept[0].untrained(expression)[0]), ("trained", kept[0].model(expression)[0])]
    heights = [40 + 34 * _depth(tree) + 36 for _, tree in trees]
    picture = _titled(f"How it reads {expression}", 40 + sum(heights))
    right, top = example.right_tree(expression), 40.0
    for (label, tree), height in zip(trees, heights, strict=True):
        verdict = "right" if tree == right else "wrong"
        picture.text(16, top + 18, f"{label}: {verdict}", size=14, fill=GREEN if tree == right else RED)
        _tree(picture, tree, top + 34, 34, lambda node: "", lambda tree: tree)
        top += height
    return picture


def tree_lstm(example: ModuleType, kept: list[Kept]) -> Picture:
    """One tree, at each node what the model takes the value below it to be, and what it is."""
    tree = (((8, "+", 1), "-", 5), "+", ((3, "-", 7), "+", 8))
    picture = _titled("The value of every part, by the model (and true)", 88 + 62 * _depth(tree))

    def label(part: Any) -> str:
        return f"{kept[0].model(part).item():.1f} ({example.value(part)})"

    _tree(picture, tree, 58, 62, label, str)
    return picture


def _depth(tree: Any) -> int:
    return 1 + max(map(_depth, tree)) if isinstance(tree, tuple) else 0


def _tree(
    picture: Picture, tree: Any, top: float, pitch: float, label: Callable[[Any], str], word: Callable[[Any], str]
) -> None:
    """Words on one line at the bottom, and above them the parts that they make, each with its label."""
    bottom = top + pitch * _depth(tree)
    n_words = len(list(_leaves(tree)))
    step = (WIDTH - 32) / n_words
    column = itertools.count()
    labels: list[tuple[float, float, str]] = []  # drawn last, over the lines

    def place(part: Any, level: int) -> tuple[float, float]:
        if not isinstance(part, tuple):
            x = 16 + step * (next(column) + 0.5)
            picture.text(x, bottom + 16, word(part), size=16, anchor="middle")
            return x, bottom
        y = top + pitch * level
        ends = [place(child, level + 1) for child in part]
        x = (ends[0][0] + ends[-1][0]) / 2
        for end in ends:
            picture.line(x, y, *end, stroke=FAINT)
        picture.circle(x, y, 4, fill=BLUE)
        labels.append((x, y, label(part)))
        return x, y

    place(tree, 0)
    for x, y, text in labels:
        if text:
            picture.rect(x - 42, y - 13, 84, 26, rx=6, fill=PAPER, stroke=BLUE)
            picture.text(x, y + 5, text, size=14, anchor="middle")


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def vae(example: ModuleType, kept: list[Kept]) -> Picture:
    """Pictures that were held out, what comes back of them, and new ones."""
    model, n = kept[0].model, 6
    held_out = example.draw_discs(n)
    codes = ex.randn(n, example.N_CODES)
    rows = {
        "held out": held_out,
        "what comes back, through three numbers": model(held_out)[0].sigmoid(),
        "made of three numbers drawn at random": model.decode(codes).sigmoid(),
    }
    size, n_shades = 72, 6
    cell = size / example.SIZE
    picture = _titled("Discs, and what the model makes of them", 46 + 106 * len(rows))
    for row, (label, images) in enumerate(rows.items()):
        top = 66 + 106 * row
        picture.text(16, top - 7, label, size=14)
        shades = (images * n_shades).round().int().reshape(n, example.SIZE, example.SIZE).tolist()
        for column, image in enumerate(shades):
            left = 16 + 83 * column
            picture.rect(left, top, size, size, fill=GRID, fill_opacity=0.35)
            for line, pixels in enumerate(image):
                for shade, start, length in runs(pixels):
                    if shade:
                        x, y, opacity = left + cell * start, top + cell * line, shade / n_shades
                        picture.rect(x, y, cell * length, cell, fill=BLUE, fill_opacity=opacity)
    return picture


def many_machines(example: ModuleType, kept: list[Kept]) -> Picture:
    """The work of four ranks in eight steps: by equal numbers of trees, and by equal cost."""
    draws = random.Random(0)
    costs = [example.cost((example.drawn(draws, draws.randint(2, 8)), 0)) for _ in range(256)]
    rows = {
        "DistributedSampler: as many trees for each of four ranks": lambda rank: DistributedSampler(costs, 4, rank),
        "CostSampler: as much work": lambda rank: CostSampler(costs, 8, costs, 4, rank),
    }
    picture = _titled("The work of each rank in eight steps", 60 + 140 * len(rows))
    for row, (label, sampler) in enumerate(rows.items()):
        bottom = 180 + 140 * row
        picture.text(16, bottom - 112, label, size=14)
        for rank in range(4):
            indices = list(sampler(rank))
            for step in range(8):
                work = sum(costs[i] for i in indices[8 * step : 8 * step + 8])
                x = 16 + 62 * step + 13 * rank
                picture.rect(x, bottom - 2 * work, 12, 2 * work, title=f"{work} joins", fill=COLOURS[rank])
    return picture


def served_reviews(example: ModuleType, kept: list[Kept]) -> Picture:
    """Reviews, each word in the colour of what the model has heard most of up to there."""
    reviews = [
        "the film is great and grand",
        "the film is not great and dull",
        "it is dull and not fine",
        "it is not bad and not dull and fine",
    ]
    picture = _titled("What prevails so far: praise is blue, blame is orange", 62 + 46 * len(reviews))
    for row, review in enumerate(reviews):
        x, y = 16.0, 46 + 46 * row
        words = review.split()
        for i, word in enumerate(words):
            scores = kept[0].model(ex.tensor([example.CODE[w] for w in words[: i + 1]])).softmax(0)
            praise, width = scores[1].item(), 9.6 * len(word) + 12
            colour, opacity = (BLUE if praise > 0.5 else ORANGE), 0.85 * abs(2 * praise - 1)
            picture.rect(x, y, width, 32, title=f"praise {praise:.0%}", fill=colour, fill_opacity=opacity)
            picture.text(x + width / 2, y + 22, word, size=15, anchor="middle", font_family="monospace")
            x += width
    return picture


def watched_reader(example: ModuleType, kept: list[Kept]) -> Picture:
    """How often it is right, by the length of the sequence, before and after training."""
    picture = _titled("Right for sequences of each length", 250)
    draws = random.Random(1)
    tests = [example.sample(draws) for _ in range(600)]
    for row, (label, model) in enumerate((("untrained", kept[0].untrained), ("trained", kept[0].model))):
        colour = (LIGHT_BLUE, BLUE)[row]
        picture.rect(WIDTH - 210 + 100 * row, 38, 12, 12, fill=colour)
        picture.text(WIDTH - 192 + 100 * row, 48, label, size=12, fill=FAINT)
        for length in range(1, example.LONGEST + 1):
            right = [int(model(w).argmax().item()) == answer for w, answer in tests if len(w) == length]
            height = 140 * sum(right) / max(len(right), 1)
            picture.rect(20 + 54 * (length - 1) + 22 * row, 212 - height, 20, height, fill=colour)
    for length in range(1, example.LONGEST + 1):
        picture.text(42 + 54 * (length - 1), 232, str(length), anchor="middle", size=12, fill=FAINT)
    return picture


DRAWN_BY: dict[str, Callable[[ModuleType, list[Any]], Picture]] = {
    function.__name__: function
    for function in (
        char_rnn,
        early_exit,
        gpt_names,
        growing_network,
        many_machines,
        message_passing,
        reading_sentences,
        reinforce,
        served_reviews,
        shift_reduce,
        tree_lstm,
        vae,
        watched_reader,
    )
}
