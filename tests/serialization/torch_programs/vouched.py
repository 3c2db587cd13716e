"""A class of the program that is none of torch's is listed as safe, and loaded with weights_only=True."""

import io

import torch


class Vocabulary:
    def __init__(self, words):
        self.words = words
        self.index = {word: i for i, word in enumerate(words)}

    def encode(self, text):
        return torch.tensor([self.index[word] for word in text.split()])


file = io.BytesIO()
torch.save({"vocabulary": Vocabulary(["a", "b", "c"]), "weight": torch.eye(3)}, file)
file.seek(0)
try:
    torch.load(file, weights_only=True)
except Exception as error:
    print("refused", "Vocabulary" in str(error), "safe_globals" in str(error))
file.seek(0)
with torch.serialization.safe_globals([Vocabulary]):
    back = torch.load(file, weights_only=True)
print(back["weight"][back["vocabulary"].encode("c a")].tolist(), Vocabulary in torch.serialization.get_safe_globals())
torch.serialization.add_safe_globals([Vocabulary])
file.seek(0)
print(torch.load(file, weights_only=True)["vocabulary"].words, Vocabulary in torch.serialization.get_safe_globals())
torch.serialization.clear_safe_globals()
