"""The data sets of the paper: loaders, downloads and small synthetic files in the same formats."""
