"""Published decoders for k-means, one a file; nothing else imports them."""
