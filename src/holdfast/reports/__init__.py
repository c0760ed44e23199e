"""Records and fitted estimators turned into tables, figures and one HTML file."""
