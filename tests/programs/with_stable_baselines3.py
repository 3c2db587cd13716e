"""PPO learns to balance a pole; DQN, A2C and SAC take a few steps. Draws random numbers, so rewards are compared."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from fixed import show
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.evaluation import evaluate_policy

torch.set_num_threads(1)
rewards = []
for seed in range(5):
    agent = PPO("MlpPolicy", "CartPole-v1", seed=seed, n_steps=256, batch_size=64, device="cpu")
    agent.learn(2048)
    rewards.append(float(evaluate_policy(agent, agent.get_env(), n_eval_episodes=5)[0]))
with tempfile.TemporaryDirectory() as folder:
    agent.save(Path(folder) / "agent")
    loaded = PPO.load(Path(folder) / "agent")
still = np.zeros((1, 4), np.float32)
same = bool((agent.predict(still, deterministic=True)[0] == loaded.predict(still, deterministic=True)[0]).all())
DQN("MlpPolicy", "CartPole-v1", seed=0, learning_starts=50).learn(200)
A2C("MlpPolicy", "CartPole-v1", seed=0).learn(100)
SAC("MlpPolicy", "Pendulum-v1", seed=0, learning_starts=50).learn(80)
show(rewards=rewards, same=same)
