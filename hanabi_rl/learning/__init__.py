"""Learners: behavioural cloning and PPO, with the rollouts, views and partners that they use."""
