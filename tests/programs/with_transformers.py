"""Language models from a configuration: training steps of BERT, losses and greedy continuations of GPT-2 and Llama."""

import torch
from fixed import fill, show
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

words = torch.arange(12).reshape(2, 6) % 30
bert = BertForSequenceClassification(
    BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
)  # fmt: skip
fill(bert)
optimizer = torch.optim.AdamW(bert.parameters(), lr=1e-3)
found = {"bert": []}
for _ in range(3):
    optimizer.zero_grad()
    loss = bert(input_ids=words, attention_mask=torch.ones_like(words), labels=torch.tensor([0, 1])).loss
    loss.backward()
    optimizer.step()
    found["bert"].append(loss)
gpt = GPT2LMHeadModel(
    GPT2Config(vocab_size=30, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
)
llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=16,
    )
)  # fmt: skip
for name, model in (("gpt", gpt), ("llama", llama)):
    fill(model)
    loss = model(words, labels=words).loss
    loss.backward()
    embeddings = model.get_input_embeddings().weight
    continued = model.generate(words[:, :3], max_new_tokens=4, do_sample=False, pad_token_id=0)
    found[name] = [loss, embeddings.grad.norm(), continued]
show(**found)
