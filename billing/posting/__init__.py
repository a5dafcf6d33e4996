"""From the streams of ended requests to the books: the biller, and the events that it holds."""
