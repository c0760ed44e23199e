"""Stage 1, predict: one judge for each environment, asked about every row that it was not fitted on."""
