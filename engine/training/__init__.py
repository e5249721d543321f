"""Making drafters: what is fitted or trained before the engine runs."""
