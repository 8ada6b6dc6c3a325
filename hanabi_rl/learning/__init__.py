"""From games and rollouts to parameters: cloning, PPO, who plays and sees what while learning."""
