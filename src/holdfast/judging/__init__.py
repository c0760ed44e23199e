"""Stage 1, predict: one classifier (judge) for each environment, and its predictions for all other rows."""
