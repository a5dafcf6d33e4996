"""The way from streams of ended requests to the books: the biller, and the events that it holds back."""
