"""One function in two threads at the same time."""

import threading


def at_once(fn):
    """What fn returns in two threads that are in the middle of it at the same time."""
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(fn())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
