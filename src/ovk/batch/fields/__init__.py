"""Vector fields: regression, derivatives, outliers."""
