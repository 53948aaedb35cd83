"""Published decoders for k-means, one per file; nothing else imports them."""
