"""
The method in your own torch loop
=================================

Parts of the method in a plain torch loop with its own optimizer, schedule, collate function and device.
"""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from holdfast.datasets import load_dataset
from holdfast.environments import Group, split_environments
from holdfast.neural import worst_case_risk
from holdfast.neural.batches import GroupBatchSampler
from holdfast.partition import partition_by_correctness

toy = load_dataset("toy", exact=True)
device = "cuda" if torch.cuda.is_available() else "cpu"


class Rows(Dataset):
    """Rows as dictionaries, the way tokenizers give them."""

    def __len__(self):
        """Count the rows."""
        return len(toy.train.y)

    def __getitem__(self, row):
        """Return one row."""
        return {"x": torch.tensor(toy.train.X[row], dtype=torch.float32), "label": int(toy.train.y[row])}


def train(network, loader, risk):
    """Your own loop, with your own optimizer and schedule."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(loader))
    for batch in loader:
        losses = F.cross_entropy(network(batch["x"].to(device)), batch["label"].to(device), reduction="none")
        optimizer.zero_grad()
        risk(losses).backward()
        optimizer.step()
        schedule.step()


def batches(groups):
    """Return a loader whose batches hold 50 rows of each group, and how many of each."""
    sampler = GroupBatchSampler(groups, batch_size=50, n_batches=300, random_state=0)
    return DataLoader(rows, batch_sampler=sampler), sampler.sizes


torch.manual_seed(0)
rows, predictions = Rows(), {}
for site in split_environments(toy.train.environments, len(rows)):  # stage 1: a judge for each environment
    judge = torch.nn.Linear(2, 2).to(device)
    train(judge, batches([Group(site.name, site.rows)])[0], torch.mean)
    predictions[site.name] = judge(torch.tensor(toy.train.X, dtype=torch.float32, device=device)).argmax(1).cpu()
partitions = partition_by_correctness(predictions, toy.train.y, toy.train.environments)  # stage 2: halves
loader, sizes = batches([half for partition in partitions for half in partition.groups() if len(half)])
final = torch.nn.Linear(2, 2).to(device)  # stage 3: the worst half of every batch
train(final, loader, lambda losses: worst_case_risk(torch.stack([part.mean() for part in losses.split(sizes)])))
weights = final.weight[1] - final.weight[0]
print(f"weight of the stable feature {weights[0]:.2f}, of the unstable one {weights[1]:.2f}")
