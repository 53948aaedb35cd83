"""How a feature map is chosen."""
