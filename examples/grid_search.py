"""
Choose a setting by leaving environments out
============================================

Choose the penalty of a logistic regression by its accuracy in environments that were left out of the fit.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from holdfast import LeaveOneEnvironmentOut, PIClassifier
from holdfast.datasets import load_dataset

data = load_dataset("colored_digits", etas=(0.9, 0.8, 0.7), seed=0)
train = data.train
search = GridSearchCV(
    PIClassifier(LogisticRegression(max_iter=1000), random_state=0),
    {"estimator__C": [0.01, 0.03, 0.1]},
    cv=LeaveOneEnvironmentOut(train.environments),
)
search.fit(train.X, train.y, environments=train.environments)
for C, score in zip(search.cv_results_["param_estimator__C"], search.cv_results_["mean_test_score"], strict=True):
    print(f"C={C:<5} accuracy in the environment left out {score:.3f}")
best = search.best_estimator_
print(f"chosen C={best.estimator.C}: accuracy where the color misleads {best.score(data.test.X, data.test.y):.3f}")
print(f"accuracy of each judge in each environment:\n{np.round(best.accuracies_, 3)}")
