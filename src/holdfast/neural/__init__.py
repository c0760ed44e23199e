"""Networks: batches, objectives, one training loop and a scikit-learn estimator. Needs the extra `neural`."""

from holdfast.extras import require

require("torch", extra="neural", what="Networks")  # every module below needs it: one clear error for all of them
