"""The mathematics written a second time, in plain float64 loops; nothing here calls the formulas of songrank."""
