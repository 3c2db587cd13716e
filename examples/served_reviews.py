"""From training to a server: a classifier of reviews of any length, without its class, in ONNX, and behind HTTP.

A review is praise and blame, and "not" turns the next such word around; which of the two is there more often? The model
reads ONE review and is trained on ragged batches. What is trained becomes a program in a file. The file runs here, in
onnxruntime (if the extra `onnx` is installed), and in a server that gathers requests of all lengths (extra `serve`).

    python examples/served_reviews.py
"""

from __future__ import annotations

import importlib.util
import json
import random
import tempfile
import threading
from pathlib import Path
from urllib.request import Request, urlopen

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

PRAISE, BLAME, OTHERS = ("fine", "grand", "great"), ("dull", "bad", "poor"), ("the", "film", "is", "and", "it")
CODE = {word: i for i, word in enumerate((*PRAISE, *BLAME, *OTHERS, "not"))}


def draw_review(draws: random.Random) -> tuple[ex.Tensor, int]:
    """Words as numbers, and whether praise prevails."""
    words, total = [], 0
    while len(words) < 3 or not total or draws.random() < 0.85:
        kind = draws.random()
        if kind < 0.5:
            words.append(draws.choice(OTHERS))
            continue
        is_praise, is_turned = kind < 0.75, draws.random() < 0.3
        words += ["not"] * is_turned + [draws.choice(PRAISE if is_praise else BLAME)]
        total += 1 if is_praise != is_turned else -1
    return ex.tensor([CODE[word] for word in words]), int(total > 0)


class Classifier(nn.Module):
    def __init__(self, dim: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(CODE), dim)
        self.gru = nn.GRU(dim, dim)
        self.score = nn.Linear(dim, 2)

    def forward(self, words: ex.Tensor) -> ex.Tensor:
        """The scores of blame and praise of one review (length,)."""
        states, _ = self.gru(self.embed(words))
        return self.score(states[-1])


def in_onnxruntime(program, folder: Path, reviews) -> list[int]:
    """What onnxruntime makes of the program's ONNX file; nothing where it is not installed."""
    if not importlib.util.find_spec("onnx") or not importlib.util.find_spec("onnxruntime"):
        return []
    import onnxruntime

    program.to_onnx(folder / "reviews.onnx")
    session = onnxruntime.InferenceSession(folder / "reviews.onnx")
    return [session.run(None, {"words": words.numpy()})[0].argmax() for words in reviews]


def over_http(file: Path, reviews) -> list[int]:
    """What a server in this process answers; nothing where starlette and uvicorn are not installed."""
    if not importlib.util.find_spec("starlette") or not importlib.util.find_spec("uvicorn"):
        return []
    from extempo.serving.server import bound_socket, make_server, make_service

    socket = bound_socket("127.0.0.1", 0)
    server = make_server(make_service([str(file)]))
    thread = threading.Thread(target=server.run, args=([socket],))
    thread.start()  # `extempo serve reviews.extempo` in a shell
    body = json.dumps({"instances": [{"words": words.tolist()} for words in reviews]}).encode()
    address = f"http://127.0.0.1:{socket.getsockname()[1]}/predict"
    with urlopen(Request(address, body, {"Content-Type": "application/json"})) as answer:
        found = [one["outputs"]["output"] for one in json.load(answer)["predictions"]]
    server.should_exit = True
    thread.join()
    return [scores.index(max(scores)) for scores in found]


def main(n_steps: int = 200) -> None:
    ex.manual_seed(0)
    draws = random.Random(0)
    model = Classifier()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for i in range(1, n_steps + 1):
        reviews, labels = zip(*[draw_review(draws) for _ in range(64)], strict=True)
        loss = F.cross_entropy(ex.stack(ex.batch(model)(list(reviews))), ex.tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 50 == 0:
            print(f"step {i:3}  loss {loss.item():.3f}")

    new, labels = zip(*[draw_review(draws) for _ in range(200)], strict=True)
    length = ex.exporting.Dim("length", min=1, max=1000)
    program = ex.program(model.eval(), new[0], dynamic={"words": {0: length}})
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "reviews.extempo"
        program.save(file)
        loaded = ex.load_program(file)
        here = [int(loaded(words).argmax()) for words in new]
        others = [found for found in (in_onnxruntime(loaded, Path(name), new), over_http(file, new)) if found]
    n_right = sum(found == label for found, label in zip(here, labels, strict=True))
    print(f"the program from the file is right for {n_right} of 200 new reviews;")
    print(f"onnxruntime and the server, where they are installed, say the same: {all(o == here for o in others)}")


if __name__ == "__main__":
    main()
