// Lists that come in pages: what came so far, and a button for more.

import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Problem } from "../api";

type Page<Item> = { items: Item[]; next?: string | null };

/** The items of a list by its cursor. `ask` is given the cursor: empty for the first page. It is asked again `every`
 * so many ms while the first page is all that is shown. */
export function usePages<Item>(key: readonly unknown[], ask: (after: string) => Promise<Page<Item>>, every: number | false = false, enabled: boolean = true) {
  const asked = useInfiniteQuery<Page<Item>, Problem, Item[], readonly unknown[], string>({
    queryKey: key,
    queryFn: ({ pageParam }) => ask(pageParam),
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
    select: (data) => data.pages.flatMap((page) => page.items),
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : every),
    enabled,
    retry: false,
  });
  const more: More = { has: asked.hasNextPage, busy: asked.isFetchingNextPage, load: () => void asked.fetchNextPage() };
  return { items: asked.data, error: asked.error, loading: asked.isLoading, updatedAt: asked.dataUpdatedAt, more, asked };
}

export type More = { has: boolean; busy: boolean; load: () => void };

/** The button below a list; nothing where the list is whole. */
export function LoadMore({ more, what }: { more: More; what: string }) {
  if (!more.has) return null;
  return <p className="load-more"><Button variant="default" loading={more.busy} onClick={more.load}>Load more {what}</Button></p>;
}
