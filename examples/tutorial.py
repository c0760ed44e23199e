r"""
Tutorial: will the model work at the next clinic?
=================================================

In fifteen minutes: build a model that looks good and fails at a new clinic, find out why, and fit one that does not.
The code runs when this page is built, so every output and figure is what you will get. You need the extra ``plots``:
``pip install -c constraints.txt '.[plots]'`` in a clone of the repository.

The rows are real: 569 samples of breast tissue that come with scikit-learn. We keep four measured columns. Two columns
are made up, so that we know the truth. One is the clinic that each sample came from. The other, ``referred``, is a note
in the file. It correlates with the diagnosis, but not equally at every clinic.
"""

# %%
# The table
# ---------
#
# In Aarhus the note agrees with the diagnosis in 97 % of the samples, in Bergen in 85 % and in Cork in 70 %. In Delft,
# where the model will be used next, the note mostly contradicts the diagnosis.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import StableClassifier, diagnose
from holdfast.plots import AuditDisplay, CautionPathDisplay, SiteAccuracyDisplay

AGREEMENT = {"Aarhus": 0.97, "Bergen": 0.85, "Cork": 0.70, "Delft": 0.10}
generator = np.random.default_rng(2)

cancer = load_breast_cancer(as_frame=True)
table = cancer.data[["mean texture", "mean smoothness", "mean symmetry", "texture error"]].copy()
malignant = (cancer.target == 0).to_numpy()
clinic = generator.choice(list(AGREEMENT), size=len(table))
agrees = generator.random(len(table)) < np.array([AGREEMENT[name] for name in clinic])
table["referred"] = np.where(agrees, malignant, ~malignant).astype(int)
label = np.where(malignant, "malignant", "benign")

table.assign(clinic=clinic, label=label).head().round(3)

# %%
# A model that looks good
# -----------------------
#
# Today there are three clinics. Cross-validation puts rows of all three into every fold, so it never tests a clinic
# that the model has not seen.

known = clinic != "Delft"
ordinary = make_pipeline(StandardScaler(), LogisticRegression())
scores = cross_val_score(ordinary, table[known], label[known], cv=5)
print(f"cross-validated at three clinics: {scores.mean():.3f}")

ordinary.fit(table[known], label[known])
print(f"at the fourth clinic:             {ordinary.score(table[~known], label[~known]):.3f}")

# %%
# A stable model, and what it says
# --------------------------------
#
# :class:`holdfast.StableClassifier` also needs the clinic of each row. It looks for columns whose effect on the label
# differs between the known clinics, and uses less of them. It has not seen Delft. Its ``verdict_`` says what it did and
# why. It also has the cost at clinics like the known ones, and the gain if the effect vanishes or reverses.

stable = StableClassifier(ordinary).fit(table[known], label[known], environments=clinic[known])
print(stable.verdict_)
print(f"\nat the fourth clinic: {stable.score(table[~known], label[~known]):.3f}")

# %%
# Which column, and where
# -----------------------
#
# The forest plot shows the effect of each column at each clinic, and a prediction interval for the next clinic. The
# effects of the note differ between the known clinics. This evidence was there before Delft.

forest = AuditDisplay.from_estimator(stable)

# %%
# Accuracy by clinic
# ------------------
#
# The ordinary model is better where the note agrees with the diagnosis, and fails where it does not. Rows of the
# three known clinics were used to fit both models, so look at the difference between clinics here.

figure, axes = plt.subplots(2, 1, figsize=(6.4, 5.4), sharex=True, layout="constrained")
for ax, (name, model) in zip(axes, {"ordinary": ordinary, "stable": stable}.items(), strict=True):
    SiteAccuracyDisplay.from_estimator(model, table, label, environments=clinic, ax=ax)
    ax.set_title(name)

# %%
# How cautious?
# -------------
#
# How much accuracy would you give up at clinics like the known ones, to be safer at the next? ``caution`` says what to
# expect of an effect that changes. At 0 the next clinic is like the known ones, and the model is the ordinary one. At
# 0.5 the effect may vanish, at 1 it may reverse. The default, 0.75, lies between.

path = CautionPathDisplay.from_estimator(stable)

# %%
# Now with four clinics: diagnose
# -------------------------------
#
# Delft's rows now have labels. Is a fifth clinic safe? :func:`holdfast.diagnose` leaves each clinic out in turn and
# measures what is lost there. It says why, tries several remedies, and recommends one.

found = diagnose(table, label, clinic)
print(found)
print(f"\n{found.recommendation.reason}\n{found.recommendation.sure}")

# %%
# Gain of each remedy at a left-out clinic, in log loss (positive is better):

for remedy in found.remedies:
    print(f"{remedy.gain.value:+.3f} [{remedy.gain.low:+.3f}, {remedy.gain.high:+.3f}]  {remedy.name}")

# %%
# If nothing is wrong, nothing changes
# ------------------------------------
#
# Without the note, no effect differs between clinics. The stable classifier is then the ordinary one, to the
# last bit.

plain = table.drop(columns="referred")
same = StableClassifier(ordinary).fit(plain[known], label[known], environments=clinic[known])
print(same.verdict_)
expected = ordinary.fit(plain[known], label[known]).predict_proba(plain)
print("identical:", np.array_equal(same.predict_proba(plain), expected))

# %%
# The new clinic
# --------------
#
# Now rows of Delft arrive, without labels. ``check`` says whether the model can be used there, which accuracy to
# expect, and what the note means in Delft. ``adapt`` would use the note in its new sense. It refuses here, because it
# did harm when Cork was treated as the new clinic. With 50 labeled rows, ``recalibrate`` corrects the probabilities.

print(stable.check(table[~known]))
labeled = np.flatnonzero(~known)[:50]
corrected = stable.recalibrate(table.iloc[labeled], label[labeled])
print(f"\n{corrected.estimator_.recalibration}")

# %%
# The same without code
# ---------------------
#
# .. code-block:: bash
#
#     holdfast diagnose clinics.csv --label label --environment clinic --out page.html
#     holdfast fit clinics.csv --label label --environment clinic --out model --report model.html
#     holdfast check model delft.csv
#     holdfast recalibrate model delft-labeled.csv --out model-delft
#     holdfast predict model-delft delft.csv --out predictions.csv
#
# Next: :doc:`your own table </how-to/own-data>`, :doc:`the new site </how-to/new-site>`, :doc:`what the verdict means
# </stable>`, and :doc:`when it helps, and when it does not </when-it-helps>`.
